package model

// pairCounts counts the copies of an index on a node, now and in the present state. A table of all pairs would be 400 MB at
// 5 000 nodes and 20 000 indices while no more pairs than copies are ever in use, and Go's map costs the inner loop too
// much: hence open addressing in one flat slice.
type pairCounts struct {
	slots []pairCount // a power of two; empty where key is 0
	used  int
}

type pairCount struct {
	key      uint64
	now, was int32
}

func pairKey(index, node int32) uint64 { return uint64(uint32(index))<<32 | uint64(uint32(node)) + 1 }

// find is the slot of a key, or the empty one where it would go.
func (t *pairCounts) find(key uint64) *pairCount {
	mask := uint64(len(t.slots) - 1)
	for at := key * 0x9e3779b97f4a7c15 >> 20; ; at++ {
		if slot := &t.slots[at&mask]; slot.key == key || slot.key == 0 {
			return slot
		}
	}
}

// get is the counts of a pair.
func (t *pairCounts) get(index, node int32) pairCount {
	if len(t.slots) == 0 {
		return pairCount{}
	}
	return *t.find(pairKey(index, node))
}

// at is the slot of a pair, valid until the next call of at.
func (t *pairCounts) at(index, node int32) *pairCount {
	if 2*t.used >= len(t.slots) {
		t.rebuild()
	}
	slot := t.find(pairKey(index, node))
	if slot.key == 0 {
		slot.key = pairKey(index, node)
		t.used++
	}
	return slot
}

// rebuild drops the pairs that no longer count anything and makes room.
func (t *pairCounts) rebuild() {
	old, live := t.slots, 0
	for i := range old {
		if old[i].now != 0 || old[i].was != 0 {
			live++
		}
	}
	size := 64
	for size < 4*(live+1) {
		size *= 2
	}
	t.slots, t.used = make([]pairCount, size), live
	for i := range old {
		if old[i].now != 0 || old[i].was != 0 {
			*t.find(old[i].key) = old[i]
		}
	}
}

// clear forgets what is now, not what was.
func (t *pairCounts) clear() {
	for i := range t.slots {
		t.slots[i].now = 0
	}
}
