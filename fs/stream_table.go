package fs

import (
	"strconv"
	"strings"

	"prismfs/order/shard"
)

// tableHead names the columns of the table of a shard.
const tableHead = "key\tsource\tlabel\tkind\toffset\tdata\tbytes\n"

// tableEscapes keeps names of any bytes within their column and line.
var tableEscapes = strings.NewReplacer("\\", "\\\\", "\t", "\\t", "\n", "\\n", "\r", "\\r")

// table writes what stands in a shard: a line for each sample, with its key, the
// path of its file in the source, its label, fresh or echo, where its first header
// and its image begin, and how long that is.
func (s *streamShard) table() []byte {
	b := []byte(tableHead)
	for i := range s.plan.Len() {
		item := s.part.At(i)
		m := s.c.member(item.Sample, s.key(i))
		b = append(b, shard.KeyText(m.Key)...)
		b = append(b, '\t')
		b = append(b, tableEscapes.Replace(s.c.path(item.Sample))...)
		b = append(b, '\t')
		if m.Labelled {
			b = strconv.AppendInt(b, m.Label, 10)
		}
		if item.Echo {
			b = append(b, "\techo\t"...)
		} else {
			b = append(b, "\tfresh\t"...)
		}
		from, to := s.plan.Image(i)
		for _, n := range []int64{s.plan.Start(i), from, to - from} {
			b = append(strconv.AppendInt(b, n, 10), '\t')
		}
		b[len(b)-1] = '\n'
	}
	return b
}
