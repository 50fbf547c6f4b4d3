import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageId;

/** Stored records as ledger lines. */
final class Record {
    private static final int MAGIC_V1 = -626843481;

    /** The first {@code n} hex digits of a SHA-256. */
    static String sha(byte[] b, int n) throws Exception {
        byte[] d = MessageDigest.getInstance("SHA-256").digest(b == null ? new byte[0] : b);
        StringBuilder s = new StringBuilder();
        for (byte x : d) {
            s.append(Character.forDigit(x >> 4 & 15, 16)).append(Character.forDigit(x & 15, 16));
        }
        return s.substring(0, n);
    }

    /** The records of an answer's body. */
    static List<byte[]> split(byte[] body) {
        List<byte[]> all = new ArrayList<>();
        ByteBuffer b = ByteBuffer.wrap(body);
        while (b.remaining() > 4) {
            byte[] one = new byte[b.getInt(b.position())];
            b.get(one);
            all.add(one);
        }
        return all;
    }

    /** One record read from queue {@code q} of {@code topic}, as a line of the given type. */
    static Map<String, Object> line(byte[] one, String type, String topic, int q) throws Exception {
        MessageExt m = MessageDecoder.decode(ByteBuffer.wrap(one), true, false);
        if (m == null) {
            ByteBuffer b = ByteBuffer.wrap(one);
            return Lab.rec("type", "undecodable", "topic", topic, "queueId", q, "recSha", sha(one, 32),
                "size", one.length, "phys", b.getLong(28), "queueOffset", b.getLong(20), "storeTs", 0L);
        }
        byte[] body = m.getBody();
        int magic = ByteBuffer.wrap(one).getInt(4);
        Map<String, Object> x = Lab.rec("type", type, "topic", m.getTopic(), "queueId", m.getQueueId(),
            "queueOffset", m.getQueueOffset(), "phys", m.getCommitLogOffset(), "size", m.getStoreSize(),
            "storeTs", m.getStoreTimestamp(), "bornTs", m.getBornTimestamp(), "sysFlag", m.getSysFlag(),
            "magic", magic == MAGIC_V1 ? null : magic, "flag", zeroNull(m.getFlag()),
            "reconsumeTimes", zeroNull(m.getReconsumeTimes()),
            "preparedTransactionOffset", zeroNull(m.getPreparedTransactionOffset()),
            "bornHost", host(m.getBornHost()), "storeHost", host(m.getStoreHost()), "bodyCrc", m.getBodyCRC(),
            "storedBodyLen", body == null ? 0 : body.length, "storedBodySha", sha(body, 32));
        if ((m.getSysFlag() & 1) != 0) {
            byte[] plain = MessageDecoder.decode(ByteBuffer.wrap(one), true, true).getBody();
            x.put("bodyLen", plain.length);
            x.put("bodySha", sha(plain, 32));
        }
        x.put("recSha", sha(one, 32));
        x.put("properties", new TreeMap<>(m.getProperties()));
        if (topic != null && !m.getTopic().equals(topic)) {
            x.put("inTopic", topic);
        }
        if (topic != null && m.getQueueId() != q) {
            x.put("inQueue", q);
        }
        x.put("offsetMsgId", MessageDecoder.createMessageId(m.getStoreHost(), m.getCommitLogOffset()));
        return x;
    }

    /** A message as a consumer got it. */
    static Map<String, Object> consumed(MessageExt m) throws Exception {
        byte[] body = m.getBody();
        return Lab.rec("type", "consumed", "topic", m.getTopic(), "queueId", m.getQueueId(),
            "queueOffset", m.getQueueOffset(), "phys", m.getCommitLogOffset(), "msgId", m.getMsgId(),
            "tags", m.getTags(), "keys", m.getKeys(), "reconsumeTimes", zeroNull(m.getReconsumeTimes()),
            "bodyLen", body == null ? 0 : body.length, "bodySha", sha(body, 32),
            "properties", new TreeMap<>(m.getProperties()));
    }

    static long physical(String offsetMsgId) throws Exception {
        MessageId id = MessageDecoder.decodeMessageId(offsetMsgId);
        return id.getOffset();
    }

    private static Object zeroNull(long v) {
        return v == 0 ? null : v;
    }

    private static String host(SocketAddress a) {
        InetSocketAddress i = (InetSocketAddress) a;
        return i.getAddress().getHostAddress() + "|" + i.getPort();
    }
}
