// Charts as SVG: lines over time or another quantity, and groups of bars. This file needs no other.

const names = 'http://www.w3.org/2000/svg';
const colours = 8; // as many as chart.css has
const letter = 6.5; // about the width of a letter

function s(tag, attributes, ...children) {
  const element = document.createElementNS(names, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const same = (value) => value;
const colour = (i, one) => `series s${i % colours + 1}` + (one.dashed ? ' dashed' : '');

// short writes a number without the noise of binary fractions, and whole thousands as 20k.
const short = (n) => n >= 10000 && n % 1000 === 0 ? n / 1000 + 'k' : String(Number(n.toPrecision(10)));

// nice returns about count round values from 0 to at least max.
function nice(max, count, least = 0) {
  const raw = max / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(least, power * [1, 2, 2.5, 5, 10].find((m) => m * power >= raw * 0.999));
  return Array.from({ length: Math.ceil(max / step - 1e-9) + 1 }, (_, i) => i * step);
}

// A scale is {place, low, high, ticks}: place makes a number of a value, low and high are the numbers at its two ends, and
// ticks are values with their names.

function timeScale(from, to, width) {
  const shares = width < 450 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  const seconds = to - from < 600000 ? '2-digit' : undefined;
  const name = (at) => new Date(at).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: seconds });
  return { place: same, low: from, high: Math.max(to, from + 1), ticks: shares.map((share) => from + share * (to - from)).map((at) => [at, name(at)]) };
}

// ninesScale spreads percentages out towards 100: 0, 90, 99, 99.9.
function ninesScale(all) {
  const place = (percent) => -Math.log10(1 - percent / 100);
  const high = Math.max(...all.map(place), 1);
  const ticks = Array.from({ length: Math.floor(high + 1e-9) + 1 }, (_, n) => 100 - 10 ** (2 - n));
  return { place, low: 0, high, ticks: ticks.map((percent) => [percent, short(percent) + ' %']) };
}

function logScale(all) {
  if (all.length === 0) return logScale([1, 10]);
  const low = Math.floor(Math.log10(Math.max(Math.min(...all), 1e-9)));
  const high = Math.max(Math.ceil(Math.log10(Math.max(...all))), low + 1);
  const powers = Array.from({ length: high - low + 1 }, (_, i) => low + i).filter((_, i) => i % Math.ceil((high - low) / 10) === 0);
  return { place: (value) => Math.log10(Math.max(value, 10 ** low)), low, high, ticks: powers.map((power) => [10 ** power, short(10 ** power)]) };
}

function scaleX(o, lines, from, to, width) {
  if (o.labels) return { place: (i) => i + 0.5, low: 0, high: o.labels.length, ticks: o.labels.map((label, i) => [i, label]) };
  if (o.x === 'time') return timeScale(from, to, width);
  const all = lines.flatMap((line) => line.map(([x]) => x));
  if (o.nines) return ninesScale(all);
  if (o.logX) {
    const ticks = [...new Set(all)].sort((a, b) => a - b);
    return { place: Math.log10, low: Math.log10(ticks[0]), high: Math.log10(ticks.at(-1)), ticks: ticks.map((value) => [value, short(value)]) };
  }
  const high = Math.max(...all, 0) || 1;
  return { place: same, low: 0, high, ticks: nice(high, Math.ceil(width / 100)).filter((value) => value <= high).map((value) => [value, short(value)]) };
}

function scaleY(o, lines) {
  const all = lines.flatMap((line) => line.map(([, y]) => y ?? 0));
  if (o.log) return logScale(all.filter((value) => value > 0));
  const ticks = nice(Math.max(...all, o.least) || 4, Math.round(o.height / 40), o.least);
  return { place: same, low: 0, high: ticks.at(-1), ticks: ticks.map((value) => [value, value === 0 ? '0' : o.axis(value)]) };
}

// pathOf returns a line as the text of a path. A step holds its value until the next one, the last one until end. A time longer
// than gap is left blank.
function pathOf(line, x, y, { step, gap, end }) {
  let path = '';
  let before = null;
  for (const [at, value] of line) {
    if (value === null || value === undefined) { before = null; continue; }
    const [px, py] = [x(at).toFixed(1), y(value).toFixed(1)];
    if (before === null || at - before > gap) path += `M${px} ${py}h.01`;
    else path += step ? `H${px}V${py}` : `L${px} ${py}`;
    before = at;
  }
  if (step && before !== null && end - before <= gap) path += `H${x(end).toFixed(1)}`;
  return path;
}

// barsOf returns a group of bars for each label; what a bar stands for is shown when it is pointed at.
function barsOf(o, lines, x, y) {
  const each = Math.min((x(1) - x(0)) * 0.7 / o.series.length, 48);
  return lines.flatMap((line, i) => line.map(([label, value]) => s('rect', {
    class: colour(i, o.series[i]), x: x(label) + each * (i - o.series.length / 2), y: y(value), width: each, height: y(0) - y(value),
  }, s('title', {}, `${o.series[i].name}, ${o.labels[label]}: ${o.format(value)}`))));
}

// marksOf returns upright lines. A name that would overlap the one before it is left out.
function marksOf(o, x, area) {
  let end = 0;
  return o.marks.filter((mark) => x(mark.x) >= area.left - 0.1 && x(mark.x) <= area.right + 0.1).map((mark) => {
    const at = x(mark.x);
    const last = at + 6 + mark.name.length * letter;
    const fits = at >= end && last <= area.right + 12;
    if (fits) end = last;
    return s('g', { class: 'mark' }, s('line', { x1: at, x2: at, y1: area.top, y2: area.bottom }), fits ? s('text', { x: at, y: area.top - 5 }, mark.name) : '');
  });
}

// axesOf returns the ticks of both axes with their names, and the names of the axes.
function axesOf(o, x, y, xs, ys, area) {
  const parts = ys.ticks.map(([value, name]) => s('g', { class: 'tick' },
    s('line', { x1: area.left, x2: area.right, y1: y(value), y2: y(value) }),
    s('text', { x: area.left - 6, y: y(value) + 4, 'text-anchor': 'end' }, name)));
  xs.ticks.forEach(([value, name], i) => {
    const anchor = o.x !== 'time' ? 'middle' : i === 0 ? 'start' : i === xs.ticks.length - 1 ? 'end' : 'middle';
    const place = area.turned ? { transform: `translate(${x(value)} ${area.bottom}) rotate(-35)`, dx: -2, dy: 12, 'text-anchor': 'end' } : { x: x(value), y: area.bottom + 16, 'text-anchor': anchor };
    parts.push(s('text', { class: 'time', ...place }, name));
  });
  if (o.xName) parts.push(s('text', { x: (area.left + area.right) / 2, y: o.height - 5, 'text-anchor': 'middle' }, o.xName));
  if (o.yName) parts.push(s('text', { transform: `translate(12 ${(area.top + area.bottom) / 2}) rotate(-90)`, 'text-anchor': 'middle' }, o.yName));
  return parts;
}

// areaOf returns the edges of the area between the axes, and whether its labels are too long to stand beside each other.
function areaOf(o, width) {
  const area = { left: o.yName ? 70 : 54, right: width - (o.x === 'time' ? 8 : 20), top: o.marks.length > 0 ? 22 : 8 };
  area.turned = o.labels?.some((label) => label.length * letter > (area.right - area.left) / o.labels.length) ?? false;
  area.bottom = o.height - 20 - (o.xName ? 20 : 0) - (area.turned ? 45 : 0);
  return area;
}

function captionOf(o, values) {
  const legend = document.createElement('p');
  legend.className = 'legend';
  if (!o.labels || o.series.length > 1) o.series.forEach((one, i) => {
    const item = document.createElement('span');
    const shape = o.labels ? s('rect', { class: colour(i, one), width: 24, height: 10 }) : s('path', { class: colour(i, one), d: 'M1 5H23' });
    item.append(s('svg', { class: 'swatch', viewBox: '0 0 24 10', 'aria-hidden': 'true' }, shape), one.name, ' ', values[i]);
    legend.append(item);
  });
  const caption = document.createElement('figcaption');
  caption.append(o.title, legend);
  if (o.note) {
    const note = document.createElement('small');
    note.append(o.note);
    caption.append(note);
  }
  return caption;
}

// chart returns {element, draw}. Its options:
//   title, note     texts above the chart
//   series          [{name, of or points, step, dashed}]: of(point) makes a value, or null, of a point that draw takes, whose time
//                   is in at; points are pairs [x, value]
//   x               'time' for the times that draw takes, or 'number'; nines: x is the share of something in percent
//   labels          names of groups of bars; a series then has one point for each
//   log, logX       make the value axis, or the x axis, logarithmic; the latter then needs two different values above 0
//   marks           [{x, name}]: upright lines
//   xName, yName    names of the axes
//   format, axis    make texts of values, axis those of the value axis; least is its smallest step
//   gap, height     a time without points for longer than gap milliseconds is left blank; the height in pixels
// draw takes points, oldest first, and the bounds of the time axis.
export function chart(options) {
  const o = { x: 'time', series: [], marks: [], format: short, gap: 4000, least: 0, height: 150, ...options };
  o.axis ??= o.format;
  const svg = s('svg', { class: 'chart', role: 'img', height: o.height });
  const values = o.series.map(() => document.createElement('b'));
  const element = document.createElement('figure');
  element.append(captionOf(o, values), svg);

  const drawable = (point) => point !== null && !(o.nines && point[0] >= 100) && !(o.log && point[1] <= 0);
  let drawn = { points: [], from: 0, to: 1 };
  let hover = null; // where the pointer is, in pixels

  // showValues writes the values at the pointer, or the newest ones, and returns the place of the former.
  function showValues(lines, x) {
    const nearest = (line) => line.reduce((best, p) => best && Math.abs(x(best[0]) - hover) <= Math.abs(x(p[0]) - hover) ? best : p, null);
    const points = lines.map((line) => hover !== null ? nearest(line) : o.x === 'time' ? line.at(-1) : null);
    points.forEach((point, i) => {
      const value = point?.[1] ?? null;
      values[i].textContent = value !== null ? o.format(value) : hover !== null || o.x === 'time' ? '–' : '';
    });
    return hover !== null ? nearest(points.filter((point) => point))?.[0] : undefined;
  }

  function draw(points = [], from = 0, to = 1) {
    drawn = { points, from, to };
    const width = element.clientWidth || 600;
    const area = areaOf(o, width);
    const lines = o.series.map((one) => one.points
      ? one.points.map((point, i) => o.labels && point ? [i, point[1]] : point).filter(drawable) : points.map((point) => [point.at, one.of(point)]));
    const xs = scaleX(o, lines, from, to, area.right - area.left);
    const ys = scaleY(o, lines);
    const x = (value) => area.left + (area.right - area.left) * (xs.place(value) - xs.low) / (xs.high - xs.low);
    const y = (value) => area.bottom - (area.bottom - area.top) * (ys.place(value) - ys.low) / (ys.high - ys.low);
    const parts = [...axesOf(o, x, y, xs, ys, area), ...marksOf(o, x, area)];
    if (o.labels) parts.push(...barsOf(o, lines, x, y));
    else lines.forEach((line, i) => parts.push(s('path', { class: colour(i, o.series[i]), d: pathOf(line, x, y, { step: o.series[i].step, gap: o.gap, end: o.x === 'time' ? to : NaN }) })));
    const at = o.labels ? undefined : showValues(lines, x);
    if (at !== undefined) parts.push(s('line', { class: 'cursor', x1: x(at), x2: x(at), y1: area.top, y2: area.bottom }));
    svg.setAttribute('width', width);
    svg.setAttribute('viewBox', `0 0 ${width} ${o.height}`);
    svg.setAttribute('aria-label', o.title + ': ' + o.series.map((one, i) => (one.name + ' ' + values[i].textContent).trim()).join(', '));
    svg.replaceChildren(...parts);
  }
  const again = () => draw(drawn.points, drawn.from, drawn.to);
  svg.addEventListener('pointermove', (event) => {
    hover = event.clientX - svg.getBoundingClientRect().left;
    again();
  });
  svg.addEventListener('pointerleave', () => { hover = null; again(); });
  new ResizeObserver(again).observe(element);
  return { element, draw };
}
