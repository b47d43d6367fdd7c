package realcluster;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Runs nodes of one product in this JVM, one per home folder named on the command line, until standard input ends.
 *
 * <p>A home folder holds config/ with the product's own yml file, which says everything about the node, and empty
 * modules/ and plugins/. Whoever starts this keeps the other end of standard input open: when that process dies, however it
 * dies, the nodes end too.
 */
public final class Launcher {
    /** How long nodes may take to close before the JVM is halted: nothing they hold is worth more. */
    private static final long CLOSE_SECONDS = 15;

    private Launcher() {}

    public static void main(String[] homes) throws Exception {
        List<Server> servers = new ArrayList<>();
        daemon("standard input", () -> {
            while (System.in.read() >= 0) {
                // Nothing is ever sent; only the end counts.
            }
            CountDownLatch closed = new CountDownLatch(1);
            daemon("halt", () -> {
                if (!closed.await(CLOSE_SECONDS, TimeUnit.SECONDS)) {
                    Runtime.getRuntime().halt(3);
                }
            });
            synchronized (servers) {
                for (Server server : servers) {
                    server.close();
                }
            }
            closed.countDown();
            System.exit(0);
        });
        for (String home : homes) {
            Path path = Path.of(home);
            synchronized (servers) {
                servers.add(Product.open(path, path.getFileName().toString()));
            }
        }
        // A start waits for an elected master, which may need the other nodes: all at once.
        for (Server server : servers) {
            daemon("start", server::start);
        }
        Thread.currentThread().join();
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void daemon(String name, Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable failure) {
                failure.printStackTrace();
                Runtime.getRuntime().halt(2);
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
    }
}
