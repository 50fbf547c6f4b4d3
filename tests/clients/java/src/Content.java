import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;
import org.apache.rocketmq.common.message.Message;

/**
 * Messages to send, by seed. {@code content=plain}: {@code size} bytes of text, tag {@code tag}, key
 * {@code keyPrefix}-n. {@code content=mix}: many lengths and alphabets, tags with equal hashes, shared keys,
 * user properties, as in the fixtures.
 */
final class Content {
    private static final String[] WORDS = ("order paid shipped alpha beta gamma ledger entry term index commit offset "
        + "queue broker leader follower replica quorum segment record header payload invoice customer warehouse")
        .split(" ");
    private static final String[] WIDE = {"žluťoučký", "kůň", "消息", "队列", "Straße", "привет", "🚀", "🦀", "𝔏edger"};
    private static final String[] TAGS = {"Aa", "BB", "TagA", "TagB", "C#", "tag-ü", "new", "AaAa", "BBBB", "AaBB"};
    private final Random rnd;
    private final Lab.Call call;
    private final String prefix;
    private final boolean mix;
    private int seq;

    Content(Lab.Call call) {
        this.call = call;
        int seed = call.number("seed", 1);
        rnd = new Random(seed);
        prefix = call.text("keyPrefix", "L" + seed);
        mix = call.text("content", "plain").equals("mix");
    }

    private String words(int n, boolean wide) {
        StringBuilder b = new StringBuilder();
        while (b.length() < n) {
            b.append(wide && rnd.nextInt(4) == 0 ? WIDE[rnd.nextInt(WIDE.length)] : WORDS[rnd.nextInt(WORDS.length)]);
            b.append(rnd.nextInt(9) == 0 ? '\n' : ' ');
        }
        return b.toString();
    }

    private byte[] body() {
        int c = rnd.nextInt(1000);
        if (c < 30) {
            return new byte[] {(byte) rnd.nextInt(256)};
        } else if (c < 500) {
            return words(5 + rnd.nextInt(500), c % 2 == 0).getBytes(StandardCharsets.UTF_8);
        } else if (c < 940) {
            return words(700 + rnd.nextInt(2500), c % 3 == 0).getBytes(StandardCharsets.UTF_8);
        } else if (c < 990) {
            return words(4200 + rnd.nextInt(12000), true).getBytes(StandardCharsets.UTF_8);
        }
        byte[] b = new byte[30000 + rnd.nextInt(70000)];
        if (c < 995) {
            rnd.nextBytes(b);
        }
        return b;
    }

    Message next() {
        int n = seq++;
        Message m;
        if (mix) {
            m = new Message(call.need("topic"), body());
            decorate(m, n);
        } else {
            byte[] b = new byte[call.number("size", 100)];
            Arrays.fill(b, (byte) ('a' + n % 26));
            byte[] head = (prefix + "-" + n + " ").getBytes(StandardCharsets.UTF_8);
            System.arraycopy(head, 0, b, 0, Math.min(b.length, head.length));
            m = new Message(call.need("topic"), b);
            m.setKeys(prefix + "-" + n);
            String tag = call.text("tag", null);
            if (tag != null) {
                m.setTags(tag);
            }
        }
        int delay = call.number("delayLevel", 0);
        if (delay > 0) {
            m.setDelayTimeLevel(delay);
        }
        return m;
    }

    private void decorate(Message m, int n) {
        if (rnd.nextInt(100) < 75) {
            m.setTags(TAGS[rnd.nextInt(TAGS.length)]);
        }
        int k = rnd.nextInt(10);
        if (k < 5) {
            m.setKeys(prefix + "-" + n);
        } else if (k < 8) {
            m.setKeys(Arrays.asList(prefix + "-" + n, "grp" + n % 17, "кл" + n % 5));
        }
        if (rnd.nextInt(3) == 0) {
            m.putUserProperty("shop", "s" + rnd.nextInt(7));
        }
        if (rnd.nextInt(8) == 0) {
            m.putUserProperty("poznámka", "čaj 🍵 " + rnd.nextInt(1000));
        }
        if (rnd.nextInt(10) == 0) {
            m.setFlag(rnd.nextInt(1 << 20));
        }
    }
}
