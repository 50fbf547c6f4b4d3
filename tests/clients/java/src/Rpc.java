import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Raw requests through the stock remoting client. */
final class Rpc {
    private static NettyRemotingClient client;

    private static synchronized NettyRemotingClient client() {
        if (client == null) {
            client = new NettyRemotingClient(new NettyClientConfig());
            client.start();
        }
        return client;
    }

    static RemotingCommand call(String to, int code, Map<String, String> ext, byte[] body) throws Exception {
        RemotingCommand c = RemotingCommand.createRequestCommand(code, null);
        c.setExtFields(new HashMap<>(ext));
        if (body != null) {
            c.setBody(body);
        }
        return client().invokeSync(to, c, 10000);
    }

    static Map<String, String> fields(Object... kv) {
        Map<String, String> m = new HashMap<>();
        for (int i = 0; i < kv.length; i += 2) {
            m.put((String) kv[i], String.valueOf(kv[i + 1]));
        }
        return m;
    }

    /** Address registered under broker id 0, or null. */
    static String master(String ns) throws Exception {
        RemotingCommand r = call(ns, 106, fields(), null);
        if (r.getBody() == null) {
            return null;
        }
        String s = new String(r.getBody(), StandardCharsets.UTF_8);
        Matcher m = Pattern.compile("[{,]\"?0\"?:\"([^\"]+)\"").matcher(s);
        return m.find() ? m.group(1) : null;
    }

    /** The broker that a command is about: argument {@code addr}, or the master that the name server names. */
    static String broker(Lab.Call call) throws Exception {
        String addr = call.text("addr", "");
        return addr.isEmpty() ? waitMaster(call.need("ns"), call.number("waitMs", 30000)) : addr;
    }

    static String waitMaster(String ns, int ms) throws Exception {
        long end = System.currentTimeMillis() + ms;
        String last = "no answer";
        while (System.currentTimeMillis() < end) {
            try {
                String a = master(ns);
                // Not 28: 5.3.3 fails in it on an upgraded store of small files.
                if (a != null && call(a, 26, fields(), null).getCode() == 0) {
                    return a;
                }
                last = "registered: " + a;
            } catch (Exception e) {
                last = e.toString();
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException("no broker at " + ns + " within " + ms + " ms (" + last + ")");
    }

    /** Runtime information, or nothing where the broker fails to tell it. */
    static String runtime(String broker) throws Exception {
        byte[] body = call(broker, 28, fields(), null).getBody();
        return body == null ? "" : new String(body, StandardCharsets.UTF_8);
    }

    static long runtimeLong(String broker, String key) throws Exception {
        Matcher m = Pattern.compile("\"" + key + "\":\"(-?\\d+)\"").matcher(runtime(broker));
        return m.find() ? Long.parseLong(m.group(1)) : -2;
    }

    /** Code 30 (largest) or 31 (smallest) offset of a queue; -1 when refused. */
    static long bound(String broker, int code, String topic, int queue) throws Exception {
        RemotingCommand r = call(broker, code, fields("topic", topic, "queueId", queue), null);
        boolean ok = r.getCode() == 0 && r.getExtFields() != null;
        return ok ? Long.parseLong(r.getExtFields().get("offset")) : -1;
    }
}
