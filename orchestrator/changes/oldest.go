package changes

import (
	"context"

	"rideshare/internal/dbaas"
	"rideshare/internal/rowlog"
)

// maxLooks bounds the pages that are read for one refused request to find the first commit that can be sent.
const maxLooks = 64

// readable returns the bounds of the log, with First moved on to the first commit that can be sent: a commit that is
// neither trimmed nor damaged, and has its part for the feed. If none is found within maxLooks pages, First is the
// position after the head.
func (f *Feed) readable(ctx context.Context, bounds dbaas.Page) (dbaas.Page, error) {
	for range maxLooks {
		if bounds.First > bounds.Head.Seq {
			break
		}
		page, event, err := f.read(ctx, bounds.First-1)
		switch code := dbaas.CodeOf(err); {
		case code == dbaas.CodeDamaged:
			bounds.First++
			continue
		case code == dbaas.CodeGone && page.First > bounds.First && page.Head.Cluster == bounds.Head.Cluster:
			bounds = page
			continue
		case code == dbaas.CodeGone && !page.Head.Cluster.IsZero():
			bounds.Head, bounds.First = page.Head, page.Head.Seq+1
			return bounds, nil
		case err != nil:
			return bounds, err
		}
		bounds.Head = page.Head
		if event != nil {
			bounds.First = page.Entries[0].Seq
			return bounds, nil
		}
		for i := range page.Entries {
			bounds.First = page.Entries[i].Seq
			if _, err = rowlog.NewEvent(&page.Entries[i]); err == nil {
				return bounds, nil
			}
			bounds.First++
		}
	}
	bounds.First = bounds.Head.Seq + 1
	return bounds, nil
}
