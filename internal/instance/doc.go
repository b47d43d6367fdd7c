// Package instance makes placement problems that look like real log clusters, from a seed: for benchmarks and tests of the
// solver. It turns Options into a model.Problem and never sees a solver. Same options, same problem.
package instance
