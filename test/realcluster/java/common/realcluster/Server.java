package realcluster;

/** One node. Each product brings a class Product with {@code static Server open(Path home, String name)}. */
public interface Server {
    Object start() throws Exception;

    void close() throws Exception;
}
