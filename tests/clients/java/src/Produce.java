import com.alibaba.fastjson.JSONArray;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sends through the stock producer; one line a message. */
final class Produce {
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    static DefaultMQProducer producer(Lab.Call call) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer(call.text("group", "LabProducer"));
        p.setNamesrvAddr(call.need("ns"));
        p.setInstanceName("lab-p" + INSTANCES.incrementAndGet());
        p.setSendMsgTimeout(call.number("timeoutMs", 8000));
        p.setVipChannelEnabled(call.flag("vip"));
        p.setRetryTimesWhenSendFailed(call.number("retries", 2));
        if (call.flag("raw")) {
            p.setCompressMsgBodyOverHowmuch(1 << 24);
        }
        p.start();
        return p;
    }

    static void release(Lab.Call call, DefaultMQProducer p) {
        p.shutdown();
    }

    /**
     * Sends {@code count} messages to {@code topic}: {@code mode} sync, async, oneway, batch or orderly (by a
     * selector over queues); {@code queue} fixes the queue (and needs {@code broker}, its name).
     */
    static void send(Lab.Call call) throws Exception {
        DefaultMQProducer p = producer(call);
        try {
            Content content = new Content(call);
            int count = call.number("count", 1);
            String mode = call.text("mode", "sync");
            if (mode.equals("batch")) {
                int per = call.number("batch", 20);
                for (int sent = 0; sent < count; sent += per) {
                    batch(call, p, content, Math.min(per, count - sent));
                }
            } else if (mode.equals("async")) {
                async(call, p, content, count);
            } else {
                for (int i = 0; i < count; i++) {
                    one(call, p, content.next(), mode, i);
                }
            }
        } finally {
            release(call, p);
        }
    }

    private static MessageQueue queue(Lab.Call call, String topic, int q) {
        return new MessageQueue(topic, call.text("broker", "broker-a"), q);
    }

    private static void one(Lab.Call call, DefaultMQProducer p, Message m, String mode, int i) throws Exception {
        int q = call.number("queue", -1);
        SendResult s = null;
        String error = null;
        try {
            if (mode.equals("oneway")) {
                p.sendOneway(m);
            } else if (mode.equals("orderly")) {
                s = p.send(m, (all, msg, arg) -> all.get((Integer) arg % all.size()), i);
            } else {
                s = q >= 0 ? p.send(m, queue(call, m.getTopic(), q)) : p.send(m);
            }
        } catch (InterruptedException e) {
            throw e;
        } catch (Exception e) {
            error = e.toString().split("\n")[0];
            if (!call.flag("loose")) {
                call.put(result(mode, m, null, error));
                throw e;
            }
        }
        call.put(result(mode, m, s, error));
    }

    private static void async(Lab.Call call, DefaultMQProducer p, Content content, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        AtomicInteger failed = new AtomicInteger();
        for (int i = 0; i < count; i++) {
            Message m = content.next();
            p.send(m, new SendCallback() {
                @Override
                public void onSuccess(SendResult s) {
                    report(result("async", m, s, null));
                }

                @Override
                public void onException(Throwable e) {
                    failed.incrementAndGet();
                    report(result("async", m, null, e.toString()));
                }

                private void report(Map<String, Object> line) {
                    call.put(line);
                    left.countDown();
                }
            });
        }
        if (!left.await(call.number("waitMs", 30000), TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException(left.getCount() + " answers missing");
        }
        if (failed.get() > 0 && !call.flag("loose")) {
            throw new IllegalStateException(failed.get() + " async sends failed");
        }
    }

    private static void batch(Lab.Call call, DefaultMQProducer p, Content content, int n) throws Exception {
        List<Message> all = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            all.add(content.next());
        }
        int q = call.number("queue", -1);
        SendResult s = q >= 0 ? p.send(all, queue(call, all.get(0).getTopic(), q)) : p.send(all);
        String[] ids = s.getOffsetMsgId() == null ? new String[0] : s.getOffsetMsgId().split(",");
        for (int i = 0; i < n; i++) {
            Map<String, Object> line = result("batch", all.get(i), s, null);
            line.put("queueOffset", s.getQueueOffset() + i);
            line.put("offsetMsgId", ids.length == n ? ids[i] : s.getOffsetMsgId());
            call.put(line);
        }
    }

    private static Map<String, Object> result(String kind, Message m, SendResult s, String error) {
        try {
            byte[] b = m.getBody();
            Map<String, Object> r = Lab.rec("type", "send", "kind", kind, "topic", m.getTopic(),
                "msgId", m.getProperty("UNIQ_KEY"), "tags", m.getTags(), "keys", m.getKeys(),
                "bodyLen", b == null ? 0 : b.length, "bodySha", Record.sha(b, 32), "error", error);
            if (s != null) {
                r.put("status", s.getSendStatus().toString());
                r.put("queueId", s.getMessageQueue().getQueueId());
                r.put("queueOffset", s.getQueueOffset());
                r.put("offsetMsgId", s.getOffsetMsgId());
            } else {
                r.put("status", error == null ? "ONEWAY" : "UNACKNOWLEDGED");
            }
            return r;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    static List<String> strings(JSONArray a) {
        return a == null ? new ArrayList<>() : Arrays.asList(a.toArray(new String[0]));
    }
}
