// Overview: is the system well, and how much does it do.

import { chart } from './chart.js';
import { bytes, h, milliseconds, number, panel, setText } from './ui.js';

const minutes = 15;
const axis = (ms) => ms < 1000 ? Number(ms.toPrecision(3)) + ' ms' : Number((ms / 1000).toPrecision(3)) + ' s';

export function overview(app) {
  const tile = (label) => {
    const value = h('b', {}, '–');
    const note = h('small', {});
    return { element: h('div', { class: 'tile' }, h('span', {}, label), value, note), set(text, more = '') { setText(value, text); setText(note, more); } };
  };
  const tiles = {
    reads: tile('Reads'), readTime: tile('Read time'), writes: tile('Writes'), writeTime: tile('Write time'), errors: tile('Errors'),
    epoch: tile('Epoch'), head: tile('Log head'), slaves: tile('Slaves'), lag: tile('Greatest lag'), size: tile('Database'),
  };
  const health = h('ul', { class: 'chips' });
  const kinds = (of, of2) => [{ name: 'reads', of }, { name: 'writes', of: of2 }];
  const time = (get) => (point) => get(point) || null; // a second without requests has no time
  const charts = [
    chart({ title: 'Requests per second', format: number, series: kinds((p) => p.reads.per_second, (p) => p.writes.per_second) }),
    chart({ title: 'Time, median', format: milliseconds, axis, series: kinds(time((p) => p.reads.p50_ms), time((p) => p.writes.p50_ms)) }),
    chart({ title: 'Time, 99 of 100', format: milliseconds, axis, series: kinds(time((p) => p.reads.p99_ms), time((p) => p.writes.p99_ms)) }),
    chart({ title: 'Errors per second', format: number, least: 1, series: kinds((p) => p.reads.errors, (p) => p.writes.errors) }),
  ];
  const element = h('div', { class: 'view' },
    h('div', { class: 'tiles' }, Object.values(tiles).map((t) => t.element)),
    panel('Health', health),
    h('div', { class: 'charts' }, charts.map((c) => h('div', { class: 'panel' }, c.element))),
    h('p', { class: 'muted' }, 'A request to /db/request counts as a write, also if it only reads.'));

  function update() {
    const point = app.points.at(-1);
    if (point) {
      tiles.reads.set(number(point.reads.per_second), 'per second');
      tiles.writes.set(number(point.writes.per_second), 'per second');
      tiles.readTime.set(milliseconds(point.reads.p50_ms), 'p99 ' + milliseconds(point.reads.p99_ms));
      tiles.writeTime.set(milliseconds(point.writes.p50_ms), 'p99 ' + milliseconds(point.writes.p99_ms));
      tiles.errors.set(number(point.reads.errors + point.writes.errors), 'per second');
      const to = app.alive ? point.at : Date.now();
      const from = Math.max(to - minutes * 60000, Math.min(app.points[0].at, to - 60000)); // a young system fills the charts, too
      for (const c of charts) c.draw(app.points.filter((p) => p.at >= from), from, to);
    }
    const cluster = app.state?.cluster;
    if (cluster) {
      const old = cluster.head_age_ms ? `, ${milliseconds(cluster.head_age_ms)} old` : '';
      tiles.epoch.set(number(cluster.epoch), (cluster.leader ? 'this one leads' : 'another one leads') + old);
      tiles.head.set(number(cluster.head_seq), 'commits' + old);
      tiles.slaves.set(`${cluster.actual_slaves} of ${cluster.desired_slaves}`, cluster.starts_held_back ? cluster.starts_held_back + ' starts held back' : 'serving, wanted');
      tiles.lag.set(number(Math.max(0, ...cluster.members.map((m) => m.lag))), 'commits');
      tiles.size.set(bytes(cluster.database?.tables), cluster.database?.limit ? 'of ' + bytes(cluster.database.limit) : 'no limit');
    }
    const chips = (app.state?.health ?? []).map((c) => h('li', { class: c.ok ? 'good' : c.starting ? 'warn' : 'bad' }, c.ok ? c.name : c.name + (c.starting ? ': starting' : ': missing')));
    if (chips.map((c) => c.textContent).join() !== [...health.children].map((c) => c.textContent).join()) health.replaceChildren(...chips);
  }
  return { element, update };
}
