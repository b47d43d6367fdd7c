package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// toy is a small rebalancer that knows the cluster over REST only: it compares two readings of the counters and moves a
// few copies from the hottest node to the coolest. It stands in for the daemon, so that the simulator is tested from the
// side the daemon sees.
type toy struct {
	c      *Cluster
	base   string
	client *http.Client
	before map[string]float64 // busy milliseconds by copy
	then   int64              // milliseconds
	owned  bool
}

func newToy(c *Cluster, addr string) *toy {
	return &toy{c: c, base: "http://" + addr, client: &http.Client{Transport: &http.Transport{}}}
}

func (d *toy) call(ctx context.Context, method, path string, body any, into any) error {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, d.base+path, in)
	if err != nil {
		return err
	}
	res, err := d.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %d %s", method, path, res.StatusCode, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

type toyStats struct {
	Nodes map[string]struct {
		Timestamp int64
		Indices   struct {
			Shards map[string][]map[string]struct {
				Search struct {
					Query float64 `json:"query_time_in_millis"`
					Fetch float64 `json:"fetch_time_in_millis"`
				}
			}
		}
	}
}

func (d *toy) Cycle(ctx context.Context, _ time.Time) error {
	if !d.owned {
		if err := d.call(ctx, "PUT", "/_cluster/settings", map[string]any{"persistent": map[string]any{
			"cluster.routing.rebalance.enable": "none", "cluster.metadata.toy.owner": `{"holder":"toy"}`,
		}}, nil); err != nil {
			return err
		}
		d.owned = true
	}
	var health struct {
		Status                string
		Relocating            int `json:"relocating_shards"`
		Initializing, Waiting int
	}
	if err := d.call(ctx, "GET", "/_cluster/health", nil, &health); err != nil {
		return err
	}
	var stats toyStats
	if err := d.call(ctx, "GET", "/_nodes/stats/indices/search?level=shards&filter_path=nodes.*.timestamp,nodes.*.indices.shards", nil, &stats); err != nil {
		return err
	}
	type copyLoad struct {
		index, shard string
		rate         float64
	}
	now, busy := int64(0), map[string]float64{}
	loads, perNode := map[string][]copyLoad{}, map[string]float64{}
	for id, n := range stats.Nodes {
		now = n.Timestamp
		perNode[id] += 0
		for index, shards := range n.Indices.Shards {
			for _, one := range shards {
				for shard, s := range one {
					key := id + index + shard
					busy[key] = s.Search.Query + s.Search.Fetch
					if was, ok := d.before[key]; ok && now > d.then && busy[key] >= was {
						rate := (busy[key] - was) / float64(now-d.then)
						perNode[id] += rate
						loads[id] = append(loads[id], copyLoad{index, shard, rate})
					}
				}
			}
		}
	}
	first := d.before == nil
	d.before, d.then = busy, now
	if first || health.Status != "green" || health.Relocating > 0 {
		return nil
	}
	mean := 0.0
	for _, x := range perNode {
		mean += x / float64(len(perNode))
	}
	for range 8 {
		ids := sortedKeys(perNode)
		slices.SortStableFunc(ids, func(a, b string) int { return cmp.Compare(perNode[b], perNode[a]) })
		hot, cold := ids[0], ids[len(ids)-1]
		if perNode[hot] <= 1.05*mean {
			return nil
		}
		copies := loads[hot]
		slices.SortFunc(copies, func(a, b copyLoad) int {
			return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(a.index+a.shard, b.index+b.shard))
		})
		at := slices.IndexFunc(copies, func(x copyLoad) bool { return x.rate > 0 && x.rate <= (perNode[hot]-perNode[cold])/2 })
		if at < 0 {
			return nil
		}
		pick := copies[at]
		loads[hot] = slices.Delete(copies, at, at+1)
		var answer struct {
			Explanations []struct {
				Decisions []struct{ Decision string }
			}
		}
		number, _ := json.Number(pick.shard).Int64()
		if err := d.call(ctx, "POST", "/_cluster/reroute?metric=none&explain=true", map[string]any{"commands": []any{
			map[string]any{"move": map[string]any{"index": pick.index, "shard": number, "from_node": hot, "to_node": cold}},
		}}, &answer); err != nil {
			return err
		}
		if slices.ContainsFunc(answer.Explanations[0].Decisions, func(x struct{ Decision string }) bool { return x.Decision == "NO" }) {
			continue
		}
		perNode[hot] -= pick.rate
		perNode[cold] += pick.rate
	}
	return nil
}

func (d *toy) Stop(ctx context.Context) error {
	defer d.client.CloseIdleConnections()
	if !d.owned {
		return nil
	}
	return d.call(ctx, "PUT", "/_cluster/settings", map[string]any{"persistent": map[string]any{
		"cluster.routing.rebalance.enable": nil, "cluster.metadata.toy.owner": nil,
	}}, nil)
}
