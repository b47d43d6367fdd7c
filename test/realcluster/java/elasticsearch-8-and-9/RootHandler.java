package realcluster;

import java.util.List;
import org.elasticsearch.Build;
import org.elasticsearch.client.internal.node.NodeClient;
import org.elasticsearch.cluster.service.ClusterService;
import org.elasticsearch.index.IndexVersion;
import org.elasticsearch.rest.BaseRestHandler;
import org.elasticsearch.rest.RestRequest;
import org.elasticsearch.rest.RestResponse;
import org.elasticsearch.rest.RestStatus;
import org.elasticsearch.xcontent.XContentBuilder;

/** Answers {@code GET /}, by which every client tells product and version; the server has it in a module of its own. */
final class RootHandler extends BaseRestHandler {
    private final ClusterService cluster;

    RootHandler(ClusterService cluster) {
        this.cluster = cluster;
    }

    @Override
    public String getName() {
        return "realcluster_root";
    }

    @Override
    public List<Route> routes() {
        return List.of(new Route(RestRequest.Method.GET, "/"), new Route(RestRequest.Method.HEAD, "/"));
    }

    @Override
    protected RestChannelConsumer prepareRequest(RestRequest request, NodeClient client) {
        return channel -> {
            Build build = Build.current();
            XContentBuilder body = channel.newBuilder().prettyPrint().startObject();
            body.field("name", cluster.getNodeName());
            body.field("cluster_name", cluster.getClusterName().value());
            body.field("cluster_uuid", cluster.state().metadata().clusterUUID());
            body.startObject("version");
            body.field("number", build.version());
            body.field("build_flavor", build.flavor());
            body.field("build_type", build.type().displayName());
            body.field("build_hash", build.hash());
            body.field("build_date", build.date());
            body.field("build_snapshot", build.isSnapshot());
            body.field("lucene_version", IndexVersion.current().luceneVersion().toString());
            body.field("minimum_wire_compatibility_version", build.minWireCompatVersion());
            body.field("minimum_index_compatibility_version", build.minIndexCompatVersion());
            body.endObject();
            body.field("tagline", "You Know, for Search");
            channel.sendResponse(new RestResponse(RestStatus.OK, body.endObject()));
        };
    }
}
