import com.alibaba.fastjson.JSONArray;
import java.io.BufferedWriter;
import java.io.File;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Everything that a broker serves, as ledger lines in the file {@code out}.
 *
 * <p>Queues are those that have a folder under {@code store}/consumequeue. Asked in addition: {@code keys}
 * (array of [topic, key, unique]), {@code times} (array of [topic, queueId, ms]), the four tables.
 */
final class Dump {
    private final String broker;
    private final PrintWriter out;
    private int total;

    private Dump(String broker, PrintWriter out) {
        this.broker = broker;
        this.out = out;
    }

    static void dump(Lab.Call call) throws Exception {
        String broker = Rpc.broker(call);
        File store = new File(call.need("store"));
        quiesce(broker, store, call.number("quietMs", 300));
        try (BufferedWriter w = Files.newBufferedWriter(Paths.get(call.need("out")), StandardCharsets.UTF_8)) {
            Dump d = new Dump(broker, new PrintWriter(w));
            d.put(Lab.rec("type", "runtime", "broker", broker, "json", Rpc.runtime(broker)));
            for (Map.Entry<String, TreeSet<Integer>> t : queues(store).entrySet()) {
                for (int q : t.getValue()) {
                    d.queue(store, t.getKey(), q);
                }
            }
            d.keys(call.args.getJSONArray("keys"));
            d.times(call.args.getJSONArray("times"));
            d.tables();
            d.put(Lab.rec("type", "dumpEnd", "messages", d.total));
            d.out.flush();
            call.put(Lab.rec("type", "dump", "messages", d.total));
        }
    }

    /** Waits until nothing is dispatched or appended any more. */
    private static void quiesce(String broker, File store, int quietMs) throws Exception {
        String last = "";
        long since = System.currentTimeMillis();
        long end = since + 60000;
        while (System.currentTimeMillis() < end) {
            long max = Rpc.runtimeLong(broker, "commitLogMaxOffset");
            long behind = Rpc.runtimeLong(broker, "dispatchBehindBytes");
            StringBuilder now = new StringBuilder().append(max);
            for (Map.Entry<String, TreeSet<Integer>> t : queues(store).entrySet()) {
                for (int q : t.getValue()) {
                    now.append(' ').append(Rpc.bound(broker, 30, t.getKey(), q));
                }
            }
            if (!now.toString().equals(last) || behind > 0) {
                last = now.toString();
                since = System.currentTimeMillis();
            } else if (System.currentTimeMillis() - since >= quietMs) {
                return;
            }
            Thread.sleep(50);
        }
        throw new IllegalStateException("broker " + broker + " does not become quiet");
    }

    private void put(Map<String, Object> m) {
        out.println(Lab.json(m));
    }

    private static TreeMap<String, TreeSet<Integer>> queues(File store) {
        TreeMap<String, TreeSet<Integer>> all = new TreeMap<>();
        for (String d : new String[] {"consumequeue", "batchconsumequeue"}) {
            File[] topics = new File(store, d).listFiles(File::isDirectory);
            for (File t : topics == null ? new File[0] : topics) {
                for (File q : t.listFiles(File::isDirectory)) {
                    all.computeIfAbsent(t.getName(), k -> new TreeSet<>()).add(Integer.parseInt(q.getName()));
                }
            }
        }
        return all;
    }

    private void queue(File store, String topic, int q) throws Exception {
        long min = Rpc.bound(broker, 31, topic, q);
        long max = Rpc.bound(broker, 30, topic, q);
        List<Map<String, Object>> lines = new ArrayList<>();
        String stop = pullAll(store, topic, q, Math.max(0, min), max, lines);
        total += lines.size();
        put(Lab.rec("type", "queue", "topic", topic, "queueId", q, "minOffset", min, "maxOffset", max,
            "pulled", lines.size(), "stopped", stop));
        lines.forEach(this::put);
    }

    /** Pulls a queue to its end; returns why it stopped before, or null. */
    private String pullAll(File store, String topic, int q, long from, long max, List<Map<String, Object>> lines)
        throws Exception {
        long at = from;
        int waits = 0;
        while (at < max) {
            RemotingCommand r = Rpc.call(broker, 11, Rpc.fields("consumerGroup", "LabDump", "topic", topic,
                "queueId", q, "queueOffset", at, "maxMsgNums", 32, "sysFlag", 4, "commitOffset", 0,
                "suspendTimeoutMillis", 0, "subscription", "*", "subVersion", 0, "expressionType", "TAG"), null);
            String n = r.getExtFields() == null ? null : r.getExtFields().get("nextBeginOffset");
            long next = n == null ? -1 : Long.parseLong(n);
            if (r.getCode() == 0) {
                for (byte[] one : Record.split(r.getBody())) {
                    lines.add(Record.line(one, "msg", topic, q));
                }
                if (next <= at) {
                    return "next " + next;
                }
                at = next;
            } else if (r.getCode() == 20 && next > at) {
                at = next;
            } else if (r.getCode() == 17) {
                return viaDisk(store, topic, q, lines, at, max);
            } else if ((r.getCode() == 1 || r.getCode() == 2) && waits++ < 30) {
                Thread.sleep(200);
            } else {
                return r.getCode() + " " + r.getRemark();
            }
        }
        return null;
    }

    /** 4.9 has no config for the op topic and refuses to pull it: view each record that the queue names. */
    private String viaDisk(File store, String topic, int q, List<Map<String, Object>> lines, long at, long max)
        throws Exception {
        File[] files = new File(store, "consumequeue/" + topic + "/" + q).listFiles();
        Arrays.sort(files);
        for (File f : files) {
            ByteBuffer b = ByteBuffer.wrap(Files.readAllBytes(f.toPath()));
            long o = Long.parseLong(f.getName()) / 20;
            for (; b.remaining() >= 20 && o < max; o++) {
                long phys = b.getLong();
                b.getInt();
                b.getLong();
                if (o >= at) {
                    byte[] one = Rpc.call(broker, 33, Rpc.fields("offset", phys), null).getBody();
                    if (one != null) {
                        lines.add(Record.line(one, "msg", topic, q));
                    }
                }
            }
        }
        return "pull refused with code 17; read by offset";
    }

    private void keys(JSONArray keys) throws Exception {
        for (int i = 0; keys != null && i < keys.size(); i++) {
            JSONArray k = keys.getJSONArray(i);
            boolean unique = k.getBooleanValue(2);
            RemotingCommand r = Rpc.call(broker, 12, Rpc.fields("topic", k.getString(0), "key", k.getString(1),
                "maxNum", 32, "beginTimestamp", 0, "endTimestamp", Long.MAX_VALUE, "_UNIQUE_KEY_QUERY", unique), null);
            List<Object> found = new ArrayList<>();
            if (r.getCode() == 0 && r.getBody() != null) {
                for (byte[] one : Record.split(r.getBody())) {
                    Map<String, Object> x = Record.line(one, "", null, -1);
                    found.add(Lab.rec("topic", x.get("topic"), "queueId", x.get("queueId"),
                        "queueOffset", x.get("queueOffset"), "phys", x.get("phys")));
                }
            }
            put(Lab.rec("type", "byKey", "topic", k.getString(0), "key", k.getString(1), "unique", unique,
                "code", r.getCode(), "found", found));
        }
    }

    private void times(JSONArray times) throws Exception {
        for (int i = 0; times != null && i < times.size(); i++) {
            JSONArray t = times.getJSONArray(i);
            RemotingCommand r = Rpc.call(broker, 29, Rpc.fields("topic", t.getString(0), "queueId", t.getIntValue(1),
                "timestamp", t.getLongValue(2)), null);
            put(Lab.rec("type", "byTime", "topic", t.getString(0), "queueId", t.getIntValue(1),
                "timestamp", t.getLongValue(2), "offset", Long.parseLong(r.getExtFields().get("offset"))));
        }
    }

    private void tables() throws Exception {
        Object[][] all = {{21, "topicConfig"}, {43, "consumerOffset"}, {45, "delayOffset"}, {201, "subscriptionGroup"}};
        for (Object[] c : all) {
            RemotingCommand r = Rpc.call(broker, (Integer) c[0], Rpc.fields("groupSeq", 0), null);
            String json = r.getBody() == null ? null : new String(r.getBody(), StandardCharsets.UTF_8);
            put(Lab.rec("type", "config", "name", c[1], "code", r.getCode(), "json", json));
        }
    }
}
