// Package solver turns a placement problem into an assignment and a proof of how good it is.
//
// Solve goes through these steps, each in a file of its own and each tested alone; docs/formulation.md has the
// mathematics.
//
//	frame     the problem as a relaxation sees it: per node and resource a convex cost, per copy what it adds
//	price     every group's cheapest placement at given prices of the nodes' resources
//	flow      prices, found by shifting parts of groups between nodes until no shift pays
//	node      which copies leave one node and which large ones come, whole copies, at what others pay for the room
//	seats     what large copies pay for a seat elsewhere: the bound where room is plenty
//	bundle    where a concave function known by planes, one bundle a node, is highest near a center
//	master    the linear program over such choices and rooms, by CLP with column generation: the bound where it is short
//	round     the relaxation's answer made whole
//	descent   best moves and best swaps until none pays: the yardstick, and the last polish of everything
//	anneal    moves, swaps and ejections under a falling temperature
//	economise which moves to walk back, and which to keep when a budget is set, as a linear program
//	exact     all there is to try, for tiny problems
//
// Before it stands model, after it plan and rebalance. Only solve.go knows of time and contexts; everything else counts
// work and asks its allowance.
package solver
