package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Fingerprint identifies the snapshot's content: same content, same text, whatever the time it was taken. Warnings are
// for people and do not count.
func (s *Snapshot) Fingerprint() string {
	content := *s
	content.TakenAt = time.Time{}
	content.Warnings = nil
	hash := sha256.New()
	// Maps are written with sorted keys by encoding/json, so that equal content is equal bytes.
	if err := json.NewEncoder(hash).Encode(content); err != nil {
		panic("cluster: a snapshot holds only numbers, text and times, and a load is never NaN: " + err.Error())
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}
