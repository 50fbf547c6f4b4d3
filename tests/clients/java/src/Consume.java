import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumes through the stock consumers; one line a message. */
final class Consume {
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    /** Counts what was consumed and knows when enough has been. */
    private static final class Sink {
        final Lab.Call call;
        final AtomicInteger count = new AtomicInteger();
        final AtomicLong last = new AtomicLong(System.currentTimeMillis());
        final Set<String> later = ConcurrentHashMap.newKeySet();
        /** Queue id -> first offset, last offset, count. */
        final Map<Integer, long[]> queues = new ConcurrentSkipListMap<>();

        Sink(Lab.Call call) {
            this.call = call;
        }

        /** False: this message is to be given again (the first {@code retry} ones, once each). */
        boolean take(MessageExt m) {
            try {
                boolean again = later.size() < call.number("retry", 0) && m.getReconsumeTimes() == 0
                    && later.add(m.getMsgId());
                queues.merge(m.getQueueId(), new long[] {m.getQueueOffset(), m.getQueueOffset(), 1}, (a, b) ->
                    new long[] {Math.min(a[0], b[0]), Math.max(a[1], b[1]), a[2] + 1});
                Map<String, Object> line = Record.consumed(m);
                if (again) {
                    line.put("type", "later");
                } else {
                    count.incrementAndGet();
                }
                line.put("thread", Thread.currentThread().getName());
                call.put(line);
                last.set(System.currentTimeMillis());
                return !again;
            } catch (Exception e) {
                e.printStackTrace();
                throw new IllegalStateException(e);
            }
        }

        /** Waits for {@code expect} messages and then {@code extraMs} of silence. */
        void await() throws Exception {
            int expect = call.number("expect", 0);
            long end = System.currentTimeMillis() + call.number("waitMs", 60000);
            while (count.get() < expect) {
                if (System.currentTimeMillis() > end) {
                    StringBuilder b = new StringBuilder("consumed " + count.get() + " of " + expect);
                    queues.forEach((q, v) -> b.append("; queue " + q + ": " + v[2] + " of " + v[0] + ".." + v[1]));
                    throw new IllegalStateException(b.toString());
                }
                Thread.sleep(20);
            }
            while (System.currentTimeMillis() - last.get() < call.number("extraMs", 0)) {
                Thread.sleep(20);
            }
        }
    }

    /**
     * Push consumer: {@code group}, {@code topic}, {@code expr}, {@code orderly}, {@code expect} messages within
     * {@code waitMs}, {@code retry} messages answered "later" once, {@code from} first or last.
     */
    static void push(Lab.Call call) throws Exception {
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(call.need("group"));
        c.setNamesrvAddr(call.need("ns"));
        c.setInstanceName("lab-c" + INSTANCES.incrementAndGet());
        c.setVipChannelEnabled(call.flag("vip"));
        c.setConsumeFromWhere(call.text("from", "first").equals("last")
            ? ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET : ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setConsumeThreadMin(call.number("threads", 4));
        c.setConsumeThreadMax(call.number("threads", 4));
        c.subscribe(call.need("topic"), call.text("expr", "*"));
        Sink sink = new Sink(call);
        if (call.flag("orderly")) {
            c.registerMessageListener((MessageListenerOrderly) (all, ctx) -> {
                for (MessageExt m : all) {
                    if (!sink.take(m)) {
                        ctx.setSuspendCurrentQueueTimeMillis(100);
                        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                    }
                }
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            c.registerMessageListener((MessageListenerConcurrently) (all, ctx) -> {
                for (MessageExt m : all) {
                    if (!sink.take(m)) {
                        ctx.setDelayLevelWhenNextConsume(call.number("retryLevel", 1));
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        c.start();
        call.put(Lab.rec("type", "started"));
        try {
            sink.await();
        } finally {
            c.shutdown();
        }
    }

    /** Pull consumer: every queue of {@code topic} from its minimum to its end. */
    @SuppressWarnings("deprecation")
    static void pull(Lab.Call call) throws Exception {
        DefaultMQPullConsumer c = new DefaultMQPullConsumer(call.need("group"));
        c.setNamesrvAddr(call.need("ns"));
        c.setInstanceName("lab-l" + INSTANCES.incrementAndGet());
        c.start();
        try {
            for (MessageQueue q : c.fetchSubscribeMessageQueues(call.need("topic"))) {
                pullQueue(call, c, q);
            }
        } finally {
            c.shutdown();
        }
    }

    @SuppressWarnings("deprecation")
    private static void pullQueue(Lab.Call call, DefaultMQPullConsumer c, MessageQueue q) throws Exception {
        long at = c.minOffset(q);
        long max = c.maxOffset(q);
        call.put(Lab.rec("type", "bounds", "queueId", q.getQueueId(), "minOffset", at, "maxOffset", max));
        int empty = 0;
        while (at < max && empty < 50) {
            PullResult r = c.pull(q, call.text("expr", "*"), at, 32);
            switch (r.getPullStatus()) {
                case FOUND:
                    for (MessageExt m : r.getMsgFoundList()) {
                        call.put(Record.consumed(m));
                    }
                    break;
                case NO_MATCHED_MSG:
                    break;
                default:
                    empty++;
                    call.put(Lab.rec("type", "status", "queueId", q.getQueueId(), "at", at,
                        "status", r.getPullStatus().toString(), "next", r.getNextBeginOffset()));
            }
            at = r.getNextBeginOffset();
        }
        if (call.flag("commit")) {
            c.updateConsumeOffset(q, at);
        }
    }

    /** Lite pull consumer: {@code topic} by subscription, or all queues assigned and sought to their begin. */
    static void litePull(Lab.Call call) throws Exception {
        DefaultLitePullConsumer c = new DefaultLitePullConsumer(call.need("group"));
        c.setNamesrvAddr(call.need("ns"));
        c.setInstanceName("lab-i" + INSTANCES.incrementAndGet());
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setAutoCommit(false);
        boolean assign = call.flag("assign");
        if (!assign) {
            c.subscribe(call.need("topic"), call.text("expr", "*"));
        }
        c.start();
        try {
            if (assign) {
                List<MessageQueue> queues = new ArrayList<>(c.fetchMessageQueues(call.need("topic")));
                c.assign(queues);
                for (MessageQueue q : queues) {
                    c.seekToBegin(q);
                }
            }
            Set<String> seen = new HashSet<>();
            int expect = call.number("expect", 1);
            long end = System.currentTimeMillis() + call.number("waitMs", 60000);
            while (seen.size() < expect) {
                for (MessageExt m : c.poll(500)) {
                    seen.add(m.getQueueId() + "@" + m.getQueueOffset());
                    call.put(Record.consumed(m));
                }
                if (System.currentTimeMillis() > end) {
                    throw new IllegalStateException("polled " + seen.size() + " of " + expect);
                }
            }
            c.commitSync();
        } finally {
            c.shutdown();
        }
    }
}
