import com.alibaba.fastjson.JSONArray;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.apache.rocketmq.namesrv.NamesrvStartup;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** A stock name server in this JVM, and the stock administration tool. */
final class Tools {
    /** Starts a name server on {@code port}, its files under {@code dir}; it lives as long as this JVM. */
    static void namesrv(Lab.Call call) throws Exception {
        int port = call.number("port", 9876);
        Path dir = Files.createDirectories(Paths.get(call.need("dir")));
        Path conf = dir.resolve("namesrv.conf");
        Files.write(conf, ("listenPort=" + port + "\nkvConfigPath=" + dir.resolve("kv.json") + "\nconfigStorePath="
            + conf + "\n").getBytes(StandardCharsets.UTF_8));
        if (NamesrvStartup.main0(new String[] {"-c", conf.toString()}) == null) {
            throw new IllegalStateException("name server did not start");
        }
        call.put(Lab.rec("type", "namesrv", "port", port));
    }

    /** One mqadmin command ({@code argv}); its output is the line's text (its status tells nothing). */
    static synchronized void admin(Lab.Call call) throws Exception {
        JSONArray argv = call.args.getJSONArray("argv");
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream err = System.err;
        PrintStream both = new PrintStream(text, true, "UTF-8");
        System.setOut(both);
        System.setErr(both);
        try {
            MQAdminStartup.main0(argv.toArray(new String[0]), null);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        call.put(Lab.rec("type", "admin", "text", text.toString("UTF-8")));
    }
}
