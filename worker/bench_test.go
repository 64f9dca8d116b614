package worker_test

import (
	"fmt"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
)

// BenchmarkSlave_PointReads is one message of 128 point reads through the bus and a
// slave; ns/op is for the message.
func BenchmarkSlave_PointReads(b *testing.B) {
	c := newCluster(b, 0)
	for i := 1; i <= 1000; i++ {
		c.store.Write(insert(i))
	}
	c.slave(2, nil)
	req := wire.ReadRequest{}
	for i := range 128 {
		r := query("SELECT v FROM n WHERE i=?", 0)
		r.Statements[0].Args = []dbaas.Value{dbaas.Integer(int64(1 + i*7%1000))}
		req.Reads = append(req.Reads, r)
	}
	body, err := req.Encode(time.Now())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		err := c.caller.Call(b.Context(), mq.ReadQ, body, func(m []byte, _ bool) bool {
			r, err := wire.DecodeReadReply(m)
			return err != nil || r.Last
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*128), "ns/read")
}

// BenchmarkMaster_Writes is one message of 64 inserts through the bus, a master and
// persdb, in one commit with its fsync; ns/op is for the message.
func BenchmarkMaster_Writes(b *testing.B) {
	c := newCluster(b, 0)
	c.master(1, nil)
	i := 0
	for b.Loop() {
		ops := make([]dbaas.Operation, 64)
		for j := range ops {
			i++
			ops[j] = operation(insert(i))
		}
		if r, err := c.write(b.Context(), ops...); err != nil || r[63].Code != dbaas.CodeOK {
			b.Fatal(fmt.Errorf("%+v, %w", r[63], err))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*64), "ns/write")
}
