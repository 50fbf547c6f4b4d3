import com.alibaba.fastjson.JSONObject;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Queries through the stock client, and raw requests. */
final class Query {
    /** By key (or unique key) through the client: prints what was found. */
    static void query(Lab.Call call) throws Exception {
        DefaultMQProducer p = Produce.producer(call);
        try {
            QueryResult r = p.queryMessage(call.need("topic"), call.need("key"), call.number("max", 32),
                call.big("begin", 0), call.big("end", Long.MAX_VALUE));
            for (MessageExt m : r.getMessageList()) {
                call.put(Record.consumed(m));
            }
        } catch (org.apache.rocketmq.client.exception.MQClientException e) {
            call.put(Lab.rec("type", "nothing", "code", e.getResponseCode(), "error", e.getErrorMessage()));
        } finally {
            Produce.release(call, p);
        }
    }

    /** By offset message id or unique key, as the client decides. */
    static void view(Lab.Call call) throws Exception {
        DefaultMQProducer p = Produce.producer(call);
        try {
            call.put(Record.consumed(p.viewMessage(call.need("topic"), call.need("msgId"))));
        } finally {
            Produce.release(call, p);
        }
    }

    /** One raw request: addr (or ns), code, ext (object), body (base64). */
    static void rpc(Lab.Call call) throws Exception {
        Map<String, String> ext = new HashMap<>();
        JSONObject e = call.args.getJSONObject("ext");
        if (e != null) {
            e.forEach((k, v) -> ext.put(k, String.valueOf(v)));
        }
        String body = call.text("body", null);
        RemotingCommand r = Rpc.call(Rpc.broker(call), call.number("code", 0), ext,
            body == null ? null : Base64.getDecoder().decode(body));
        byte[] b = r.getBody();
        call.put(Lab.rec("type", "answer", "code", r.getCode(), "remark", r.getRemark(), "ext", r.getExtFields(),
            "body", b == null ? null : Base64.getEncoder().encodeToString(b)));
    }

    /** Waits until the name server names a master that answers, and, if topic is given, a route to it. */
    static void ready(Lab.Call call) throws Exception {
        String ns = call.need("ns");
        int ms = call.number("waitMs", 30000);
        long end = System.currentTimeMillis() + ms;
        String addr = Rpc.waitMaster(ns, ms);
        String topic = call.text("topic", null);
        while (topic != null && Rpc.call(ns, 105, Rpc.fields("topic", topic), null).getCode() != 0) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("no route to " + topic);
            }
            Thread.sleep(100);
        }
        call.put(Lab.rec("type", "ready", "addr", addr));
    }
}
