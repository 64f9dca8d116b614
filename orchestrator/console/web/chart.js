// Line charts over time, as SVG. This file needs no other.

const space = { left: 54, right: 8, top: 8, bottom: 20 };
const names = 'http://www.w3.org/2000/svg';

function s(tag, attributes, ...children) {
  const element = document.createElementNS(names, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// nice returns about count round values from 0 to at least max.
export function nice(max, count = 4, least = 0) {
  const raw = Math.max(max, 1e-9) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(least, power * [1, 2, 2.5, 5, 10].find((m) => m * power >= raw * 0.999));
  return Array.from({ length: Math.ceil(max / step - 1e-9) + 1 }, (_, i) => i * step);
}

// chart returns {element, draw}. series are {name, of(point), step}, in the order of the colours s1, s2, ...; of may
// return null. draw takes points with a time in at, oldest first, and the bounds of the time axis. least is the
// smallest step of the value axis, whose labels axis makes. A time without points for longer than gap milliseconds is left blank.
export function chart({ title, series, format, axis = format, gap = 4000, least = 0, height = 150 }) {
  const svg = s('svg', { class: 'chart', role: 'img', height });
  const values = series.map(() => document.createElement('b'));
  const legend = document.createElement('p');
  legend.className = 'legend';
  series.forEach((one, i) => {
    const item = document.createElement('span');
    item.className = 's' + (i + 1);
    item.append(one.name, ' ', values[i]);
    legend.append(item);
  });
  const element = document.createElement('figure');
  const caption = document.createElement('figcaption');
  caption.append(title, legend);
  element.append(caption, svg);

  let drawn = { points: [], from: 0, to: 1 };
  let hover = null; // a time
  const show = (point) => series.forEach((one, i) => {
    const value = point ? one.of(point) : null;
    values[i].textContent = value === null || value === undefined ? '–' : format(value);
  });

  function draw(points, from, to) {
    drawn = { points, from, to };
    const width = element.clientWidth || 600;
    const right = width - space.right;
    const bottom = height - space.bottom;
    const all = points.flatMap((point) => series.map((one) => one.of(point) ?? 0));
    const ticks = nice(Math.max(...all, least || 1e-9), 4, least);
    const top = ticks.at(-1) || 1;
    const x = (at) => space.left + (right - space.left) * (at - from) / Math.max(to - from, 1);
    const y = (value) => bottom - (bottom - space.top) * value / top;
    const parts = ticks.map((tick) => s('g', { class: 'tick' },
      s('line', { x1: space.left, x2: right, y1: y(tick), y2: y(tick) }),
      s('text', { x: space.left - 6, y: y(tick) + 4, 'text-anchor': 'end' }, tick === 0 ? '0' : axis(tick))));
    for (const share of width < 500 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]) {
      const at = from + share * (to - from);
      parts.push(s('text', { class: 'time', x: x(at), y: height - 4, 'text-anchor': share === 0 ? 'start' : share === 1 ? 'end' : 'middle' },
        new Date(at).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: to - from < 600000 ? '2-digit' : undefined })));
    }
    series.forEach((one, i) => {
      let path = '';
      let before = null;
      for (const point of points) {
        const value = one.of(point);
        if (value === null || value === undefined) { before = null; continue; }
        const [px, py] = [x(point.at).toFixed(1), y(value).toFixed(1)];
        if (before === null || point.at - before > gap) path += `M${px} ${py}h.01`;
        else path += one.step ? `H${px}V${py}` : `L${px} ${py}`;
        before = point.at;
      }
      parts.push(s('path', { class: 's' + (i + 1), d: path }));
    });
    const shown = hover === null ? points.at(-1) : points.reduce((best, p) => best && Math.abs(best.at - hover) < Math.abs(p.at - hover) ? best : p, null);
    if (hover !== null && shown) parts.push(s('line', { class: 'cursor', x1: x(shown.at), x2: x(shown.at), y1: space.top, y2: bottom }));
    show(shown);
    svg.setAttribute('width', width);
    svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    svg.setAttribute('aria-label', title + ': ' + series.map((one, i) => one.name + ' ' + values[i].textContent).join(', '));
    svg.replaceChildren(...parts);
  }
  const again = () => draw(drawn.points, drawn.from, drawn.to);
  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect();
    const share = (event.clientX - box.left - space.left) / (box.width - space.left - space.right);
    hover = drawn.from + share * (drawn.to - drawn.from);
    again();
  });
  svg.addEventListener('pointerleave', () => { hover = null; again(); });
  new ResizeObserver(again).observe(element);
  return { element, draw };
}
