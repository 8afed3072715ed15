// The consumer of examples/java with a handler that always fails.

import java.nio.file.Path;

public class Failing {
    public static void main(String[] args) throws Exception {
        Consumer consumer = new Consumer(args[0], args[1], "java-1", Path.of(args[2]));
        consumer.work(delivery -> { throw new Exception("no \u201csuch\u201d\n\"mailbox\""); });
    }
}
