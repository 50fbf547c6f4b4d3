import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Drives stock RocketMQ clients for the end-to-end tests. Compiles against 4.9.x and 5.x.
 *
 * <p>One command: {@code java Lab COMMAND key=value …}. Many commands in one JVM: {@code java Lab serve},
 * which reads one JSON object a line ({@code {"id":1,"cmd":"send","args":{…}}}) and runs each on a thread
 * of its own until its input ends. Output is JSON lines; each carries the {@code id} of its command,
 * the last one of a command has {@code "type":"done"} with {@code ok} and, after a failure, {@code error}.
 * Everything else that the stock code prints goes to standard error.
 */
public final class Lab {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    /** One running command: its arguments and where its lines go. */
    static final class Call {
        final Object id;
        final JSONObject args;

        Call(Object id, JSONObject args) {
            this.id = id;
            this.args = args;
        }

        String text(String key, String otherwise) {
            String v = args.getString(key);
            return v == null ? otherwise : v;
        }

        String need(String key) {
            String v = args.getString(key);
            if (v == null) {
                throw new IllegalArgumentException("argument missing: " + key);
            }
            return v;
        }

        int number(String key, int otherwise) {
            Integer v = args.getInteger(key);
            return v == null ? otherwise : v;
        }

        long big(String key, long otherwise) {
            Long v = args.getLong(key);
            return v == null ? otherwise : v;
        }

        boolean flag(String key) {
            Boolean v = args.getBoolean(key);
            return v != null && v;
        }

        /** Prints one line. */
        void put(Map<String, Object> line) {
            Map<String, Object> all = new LinkedHashMap<>();
            all.put("id", id);
            all.putAll(line);
            String s = json(all);
            synchronized (OUT) {
                OUT.println(s);
                OUT.flush();
            }
        }
    }

    static String json(Object o) {
        return JSON.toJSONString(o, SerializerFeature.DisableCircularReferenceDetect);
    }

    /** A map in the given order; entries with a null value are left out. */
    static Map<String, Object> rec(Object... kv) {
        Map<String, Object> m = new LinkedHashMap<>();
        for (int i = 0; i < kv.length; i += 2) {
            if (kv[i + 1] != null) {
                m.put((String) kv[i], kv[i + 1]);
            }
        }
        return m;
    }

    private static boolean run(Call call, String cmd) {
        long start = System.currentTimeMillis();
        String error = null;
        try {
            switch (cmd) {
                case "send": Produce.send(call); break;
                case "push": Consume.push(call); break;
                case "pull": Consume.pull(call); break;
                case "litepull": Consume.litePull(call); break;
                case "query": Query.query(call); break;
                case "view": Query.view(call); break;
                case "dump": Dump.dump(call); break;
                case "rpc": Query.rpc(call); break;
                case "ready": Query.ready(call); break;
                case "admin": Tools.admin(call); break;
                case "namesrv": Tools.namesrv(call); break;
                default: throw new IllegalArgumentException("no such command: " + cmd);
            }
        } catch (Throwable e) {
            e.printStackTrace();
            error = e.toString();
        }
        call.put(rec("type", "done", "cmd", cmd, "ok", error == null, "error", error,
            "ms", System.currentTimeMillis() - start));
        return error == null;
    }

    private static void serve() throws Exception {
        ExecutorService pool = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject o = JSON.parseObject(line);
            JSONObject args = o.getJSONObject("args");
            Call call = new Call(o.get("id"), args == null ? new JSONObject() : args);
            String cmd = o.getString("cmd");
            pool.execute(() -> run(call, cmd));
        }
    }

    public static void main(String[] av) throws Exception {
        System.setOut(System.err);
        System.setProperty("rocketmq.client.logLevel", "ERROR");
        int status = 0;
        if (av.length > 0 && av[0].equals("serve")) {
            serve();
        } else if (av.length > 0) {
            JSONObject args = new JSONObject();
            for (int i = 1; i < av.length; i++) {
                int e = av[i].indexOf('=');
                String v = av[i].substring(e + 1);
                args.put(av[i].substring(0, e), v.startsWith("[") || v.startsWith("{") ? JSON.parse(v) : v);
            }
            status = run(new Call(0, args), av[0]) ? 0 : 1;
        } else {
            System.err.println("usage: Lab serve | Lab COMMAND key=value …");
            status = 2;
        }
        Runtime.getRuntime().halt(status);
    }
}
