// A consumer of one queue in Java 17, by lua/README.md, with nothing but the JDK:
//
//     waterclock scripts export scripts
//     java Consumer.java redis://127.0.0.1:6379/0 mail scripts        (until SIGTERM)

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class Consumer {
    // As the deployment is set: WATERCLOCK_EXECUTION_LEASE_MS, _MAX_DELIVERIES, _HISTORY_LIMIT, _LEDGER_LIMIT.
    static final int LEASE_MS = 10_000, MAX_DELIVERIES = 5, HISTORY = 50, LEDGER = 2_000;

    /** One entry as it was handed over. Entry, consumer and `deliveries` prove that it is ours. */
    record Delivery(String tag, String stream, String entry, long deliveries, Map<String, String> fields, long startedAt) {
        String executionId() { return fields.get("execution_id"); }
        long nominalAt() { return Long.parseLong(executionId().split("@")[1]); }
        boolean hasLapsed() { return "1".equals(fields.get("lapsed")); }
        boolean isLate() { return "gated".equals(fields.get("lapsed")); }
        boolean hasExpired() {
            String at = fields.get("expires_at");
            return deliveries == 1 && at != null && startedAt >= Long.parseLong(at);
        }
    }

    /** What a handler does. It must stand being called twice: the execution id is the key by which to know. */
    interface Handler { void run(Delivery delivery) throws Exception; }

    /** A refusal of the server: its first word is the code. */
    static class Refused extends IOException { Refused(String message) { super(message); } }

    final Redis redis;
    final String queue, name;
    final Path scripts;
    final List<String> tags, streams;
    final Map<String, String> texts = new HashMap<>(), shas = new HashMap<>();

    Consumer(String url, String queue, String name, Path scripts) throws IOException {
        this.redis = new Redis(URI.create(url));
        this.queue = queue;
        this.name = name;
        this.scripts = scripts;
        this.streams = List.of(queue + ":high", queue, queue + ":low");
        String layout = (String) redis.call("GET", "wc:layout");
        if (!layout.contains("\"version\":2,")) throw new IOException("this layout is not known here: " + layout);
        this.tags = List.of(find(layout, "\"tags\":\\[([^\\]]*)\\]").replace("\"", "").split(","));
    }

    // Scripts

    /** A script's reply. A server forgets scripts: load it then, and send again. */
    Object run(String script, List<String> keys, Object... args) throws IOException {
        if (!texts.containsKey(script)) {
            byte[] text = Files.readAllBytes(scripts.resolve(script + ".lua"));
            texts.put(script, new String(text, StandardCharsets.UTF_8));
            try {
                shas.put(script, HexFormat.of().formatHex(MessageDigest.getInstance("SHA-1").digest(text)));
            } catch (java.security.NoSuchAlgorithmException error) {
                throw new IOException(error);
            }
        }
        List<Object> call = new ArrayList<>(List.of("EVALSHA", shas.get(script), keys.size()));
        call.addAll(keys);
        call.addAll(Arrays.asList(args));
        try {
            return redis.call(call.toArray());
        } catch (Refused refusal) {
            if (!refusal.getMessage().startsWith("NOSCRIPT")) throw refusal;
            redis.call("SCRIPT", "LOAD", texts.get(script));
            return redis.call(call.toArray());
        }
    }

    String key(String tag, String rest) { return "wc:{" + tag + "}:" + rest; }

    List<String> keys(String tag, String stream) {
        return List.of(key(tag, "ready:" + stream), key(tag, "jobs"), key(tag, "buckets"), key(tag, "dead"),
            key(tag, "gates"), key(tag, "outbox"), key(tag, "ledger"));
    }

    Object[] args(String tag, Object[] first, Object... last) {
        List<Object> all = new ArrayList<>(Arrays.asList(first));
        for (String kind : List.of("job:", "due:", "runs:", "letter:", "inputs:")) all.add(key(tag, kind));
        all.addAll(List.of(HISTORY, LEDGER));
        all.addAll(Arrays.asList(last));
        return all.toArray();
    }

    long now() throws IOException {
        List<?> time = (List<?>) redis.call("TIME");
        return Long.parseLong((String) time.get(0)) * 1000 + Long.parseLong((String) time.get(1)) / 1000;
    }

    // Taking

    /** The next delivery: one whose lease ran out, else a new one, the urgent first; null if there is none. */
    Delivery take() throws IOException {
        Object settings = redis.call("HGET", "wc:queues", queue);
        if (settings != null && ((String) settings).contains("\"paused\":true")) return null;
        for (String stream : streams) for (String tag : tags) {
            Delivery found = reclaim(tag, stream);
            if (found == null) found = read(tag, stream);
            if (found != null) return found;
        }
        return null;
    }

    Delivery reclaim(String tag, String stream) throws IOException {
        String cursor = "-";
        while (!cursor.isEmpty()) {
            long now = now();
            Object[] first = {name, now, stream, LEASE_MS, MAX_DELIVERIES, cursor, 100, 1};
            List<?> reply;
            try {
                reply = (List<?>) run("reclaim_executions", keys(tag, stream), args(tag, first));
            } catch (Refused refusal) {
                if (refusal.getMessage().contains("NOGROUP")) return null;
                throw refusal;
            }
            cursor = (String) reply.get(0);
            if (reply.size() > 2) {
                List<?> row = (List<?>) reply.get(2);
                return new Delivery(tag, stream, (String) row.get(0), (Long) row.get(1), pairs(row.get(2)), now);
            }
        }
        return null;
    }

    Delivery read(String tag, String stream) throws IOException {
        String ready = key(tag, "ready:" + stream);
        Object reply;
        try {
            reply = redis.call("XREADGROUP", "GROUP", "workers", name, "COUNT", 1, "STREAMS", ready, ">");
        } catch (Refused refusal) {
            if (!refusal.getMessage().startsWith("NOGROUP")) throw refusal;
            try {
                redis.call("XGROUP", "CREATE", ready, "workers", 0, "MKSTREAM");
            } catch (Refused other) {
                if (!other.getMessage().startsWith("BUSYGROUP")) throw other;
            }
            return read(tag, stream);
        }
        if (reply == null) return null;
        List<?> entry = (List<?>) ((List<?>) ((List<?>) ((List<?>) reply).get(0)).get(1)).get(0);
        return new Delivery(tag, stream, (String) entry.get(0), 1, pairs(entry.get(1)), now());
    }

    static Map<String, String> pairs(Object flat) {
        List<?> words = (List<?>) flat;
        Map<String, String> found = new HashMap<>();
        for (int n = 0; n < words.size(); n += 2) found.put((String) words.get(n), (String) words.get(n + 1));
        return found;
    }

    // Holding and ending

    /** Extend a lease; false if it is lost: what is being done is to be stopped. */
    boolean heartbeat(Delivery d) throws IOException {
        List<String> ready = List.of(key(d.tag, "ready:" + d.stream));
        return ((List<?>) run("heartbeat_executions", ready, name, d.entry, d.deliveries)).get(0).equals(1L);
    }

    String succeed(Delivery d) throws IOException {
        return end(d, "succeeded", "", "", record(d, "succeeded", ""));
    }

    String skip(Delivery d) throws IOException {
        long at = d.nominalAt();
        return end(d, "skipped", "", "", "[" + at + ",\"skipped\"," + at + ",1,1,\"" + (d.isLate() ? "upstream_late" : "expired") + "\"]");
    }

    /** End a failed attempt: another one follows, as the job's retry policy says, or none. */
    String fail(Delivery d, String error) throws IOException {
        String[] since = (d.fields.getOrDefault("since", "") + ".").split("\\.", -1);
        long beganAt = since[0].isEmpty() ? d.startedAt : Long.parseLong(since[0]);
        long base = since[1].isEmpty() ? 0 : Long.parseLong(since[1]);
        long now = now();
        Long waitMs = nextWaitMs(d.fields.getOrDefault("retry", ""), Long.parseLong(d.fields.get("attempt")) - base, now - beganAt);
        String told = ",null," + quote(error);
        if (waitMs == null) return end(d, "dead", "exhausted", "", record(d, "dead", told));
        return end(d, "failed", String.valueOf(now + waitMs), beganAt + "." + base, record(d, "failed", told));
    }

    String record(Delivery d, String outcome, String rest) throws IOException {
        return "[" + d.nominalAt() + ",\"" + outcome + "\"," + d.fields.get("attempt") + "," + d.deliveries + ",\"" + name + "\","
            + (d.startedAt - d.nominalAt()) + "," + (now() - d.startedAt) + rest + "]";
    }

    /** `done`, `already` or `stale`. Sending the same again is safe. */
    String end(Delivery d, String outcome, String detail, String since, String record) throws IOException {
        Object[] first = {name, now(), d.stream};
        Object reply = run("complete_executions", keys(d.tag, d.stream), args(d.tag, first, d.entry, d.deliveries,
            d.executionId(), d.fields.get("attempt"), outcome, detail, since, record, ""));
        return (String) ((List<?>) reply).get(0);
    }

    void leave() throws IOException {
        for (String stream : streams) for (String tag : tags)
            run("forget_consumers", List.of(key(tag, "ready:" + stream)), 0, name);
    }

    // The retry policy: JSON of what differs from the defaults

    static Long nextWaitMs(String retry, long attempt, long elapsedMs) {
        if (attempt >= number(retry, "max_attempts", 3)) return null;
        long base = number(retry, "base_ms", 1_000), max = number(retry, "max_ms", 3_600_000), wait;
        String backoff = find(retry, "\"backoff\":\"(\\w+)\""), jitter = find(retry, "\"jitter\":\"(\\w+)\"");
        if (backoff.equals("fixed")) wait = base;
        else if (backoff.equals("linear")) wait = base * attempt;
        else if (backoff.equals("list")) {
            String[] waits = find(retry, "\"waits_ms\":\\[([^\\]]*)\\]").split(",");
            wait = Long.parseLong(waits[(int) Math.min(attempt, waits.length) - 1]);
        } else wait = attempt > 40 ? max : base << (attempt - 1);
        wait = Math.min(wait, max);
        ThreadLocalRandom random = ThreadLocalRandom.current();
        if (jitter.equals("full")) wait = random.nextLong(wait + 1);
        else if (jitter.equals("decorrelated")) {
            wait = base;
            for (int n = 0; n < attempt; n++) wait = Math.min(max, random.nextLong(base, 3 * wait + 1));
        } else if (!jitter.equals("none")) wait = random.nextLong(wait / 2, wait + 1);
        long begins = elapsedMs + wait;
        if (begins > number(retry, "max_elapsed_ms", Long.MAX_VALUE)) return null;
        return begins >= number(retry, "deadline_ms", Long.MAX_VALUE) ? null : wait;
    }

    static long number(String json, String name, long usual) {
        String found = find(json, "\"" + name + "\":(\\d+)");
        return found.isEmpty() ? usual : Long.parseLong(found);
    }

    static String find(String text, String pattern) {
        Matcher found = Pattern.compile(pattern).matcher(text);
        return found.find() ? found.group(1) : "";
    }

    static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.substring(0, Math.min(text.length(), 2_048)).toCharArray()) {
            if (c == '"' || c == '\\') quoted.append('\\').append(c);
            else if (c < ' ') quoted.append(String.format("\\u%04x", (int) c));
            else quoted.append(c);
        }
        return quoted.append('"').toString();
    }

    // Running

    volatile boolean stopped;

    void work(Handler handler) throws Exception {
        var beats = Executors.newSingleThreadScheduledExecutor(Executors.defaultThreadFactory());
        while (!stopped) {
            Delivery d = take();
            if (d == null) {
                Thread.sleep(200);
                continue;
            }
            ScheduledFuture<?> beat = beats.scheduleAtFixedRate(() -> {
                try {
                    heartbeat(d);
                } catch (IOException error) {
                    System.err.println(error.getMessage());
                }
            }, LEASE_MS / 3, LEASE_MS / 3, TimeUnit.MILLISECONDS);
            System.out.println(d.executionId() + ": " + run(d, handler));
            beat.cancel(false);
        }
        beats.shutdownNow();
        leave();
    }

    String run(Delivery d, Handler handler) throws IOException {
        if (d.hasLapsed()) return fail(d, "timeout: the target fell silent");
        if (d.isLate() || d.hasExpired()) return skip(d);
        try {
            handler.run(d);
        } catch (Exception error) {
            return fail(d, error.toString());
        }
        return succeed(d);
    }

    public static void main(String[] args) throws Exception {
        if (args.length < 3) throw new IllegalArgumentException("usage: java Consumer.java REDIS_URL QUEUE SCRIPTS");
        Consumer consumer = new Consumer(args[0], args[1], "java-" + ProcessHandle.current().pid(), Path.of(args[2]));
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.stopped = true;
            try {
                main.join();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.work(d -> System.out.println(d.executionId() + ": " + d.fields.get("payload")));
    }

    /** As much of a Redis client as this needs: RESP 2 over one connection, for several threads. Use a real one. */
    static class Redis {
        final Socket socket;
        final InputStream in;

        Redis(URI url) throws IOException {
            socket = new Socket(url.getHost(), url.getPort() < 0 ? 6379 : url.getPort());
            socket.setTcpNoDelay(true);
            in = new BufferedInputStream(socket.getInputStream());
            String user = url.getUserInfo();
            if (user != null) call(("AUTH:" + user).replaceFirst("^AUTH::", "AUTH:").split(":"));
            if (url.getPath().length() > 1) call("SELECT", url.getPath().substring(1));
        }

        synchronized Object call(Object... words) throws IOException {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            out.writeBytes(("*" + words.length + "\r\n").getBytes());
            for (Object word : words) {
                byte[] bytes = word.toString().getBytes(StandardCharsets.UTF_8);
                out.writeBytes(("$" + bytes.length + "\r\n").getBytes());
                out.writeBytes(bytes);
                out.writeBytes("\r\n".getBytes());
            }
            socket.getOutputStream().write(out.toByteArray());
            return reply();
        }

        Object reply() throws IOException {
            String line = line(), rest = line.substring(1);
            switch (line.charAt(0)) {
                case '-': throw new Refused(rest);
                case '+': return rest;
                case ':': return Long.parseLong(rest);
                case '$': {
                    int length = Integer.parseInt(rest);
                    if (length < 0) return null;
                    String text = new String(in.readNBytes(length), StandardCharsets.UTF_8);
                    in.readNBytes(2);
                    return text;
                }
                default: {
                    int count = Integer.parseInt(rest);
                    if (count < 0) return null;
                    List<Object> list = new ArrayList<>();
                    for (int n = 0; n < count; n++) list.add(reply());
                    return list;
                }
            }
        }

        String line() throws IOException {
            ByteArrayOutputStream line = new ByteArrayOutputStream();
            for (int c = in.read(); c != '\r'; c = in.read()) {
                if (c < 0) throw new IOException("the server closed the connection");
                line.write(c);
            }
            in.read();
            return line.toString(StandardCharsets.UTF_8);
        }
    }
}
