package commitlog

import (
	"encoding/binary"
	"hash/crc32"

	"rideshare/internal/dbaas"
)

// Damage says which bytes of a stored entry differ from those that were written.
type Damage uint8

const (
	// DamagedChanges means that only the changes are damaged. Operations and position are intact.
	DamagedChanges Damage = iota + 1
	// DamagedOperations means that at least one of seq, epoch, time, operations and the sum is damaged.
	DamagedOperations
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf returns an entry's checksum as the log stores it. The high half is the CRC-32C of seq, epoch, at and ops; the
// low half is the same CRC continued over changes. So operations can be checked without reading the changes.
func sumOf(seq, epoch, at int64, ops, changes []byte) int64 {
	var place [24]byte
	for i, v := range []int64{seq, epoch, at} {
		binary.BigEndian.PutUint64(place[8*i:], uint64(v))
	}
	head := crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, ops)
	return int64(uint64(head)<<32 | uint64(crc32.Update(head, castagnoli, changes)))
}

// damageOf compares an entry's stored sum with the sum of the bytes that were read. Without the changes it compares
// only the high halves.
func damageOf(stored, read int64, noChanges bool) Damage {
	switch diff := uint64(stored) ^ uint64(read); {
	case diff>>32 != 0:
		return DamagedOperations
	case diff != 0 && !noChanges:
		return DamagedChanges
	}
	return 0
}

func errDamaged(seq dbaas.Seq) error {
	return dbaas.Errorf(dbaas.CodeDamaged, "entry %d of the log is damaged: its bytes on the disk are not those that were written", seq)
}
