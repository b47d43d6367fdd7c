// Command prepare gets the servers that the tests start ready ahead of the tests: it resolves and compiles what is not
// in the cache yet, which needs the network and up to a minute a product, and says which products this machine cannot
// run.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/shardonnay/shardonnay/test/realcluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := prepare(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func prepare(ctx context.Context) error {
	for _, p := range append(realcluster.Products(), realcluster.OpenSearchSecured) {
		if err := p.Available(); err != nil {
			fmt.Printf("%-24s WILL NOT BE TESTED: %v\n", p, err)
			continue
		}
		began := time.Now()
		if err := p.Prepare(ctx); err != nil {
			return err
		}
		fmt.Printf("%-24s ready (%.1f s)\n", p, time.Since(began).Seconds())
	}
	return nil
}
