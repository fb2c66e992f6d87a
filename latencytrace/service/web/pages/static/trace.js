// The waterfall: some forty rows of the page are used again and again for those in view.
import { duration } from './duration.js';

const data = JSON.parse(document.getElementById('rows').textContent);
const about = document.getElementById('rows').dataset;
const count = data.depth.length;
const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 1000;
const MANY = 400; // edges of stretches, beyond which they are drawn by pixel
const LARGE = 2000; // rows, beyond which a trace opens closed
const failed = new Set(data.failed);
const deepest = data.depth.reduce((most, depth) => Math.max(most, depth), 1);
const ROW = matchMedia('(max-width: 700px)').matches ? 70 : 26;
const DEEP = 12; // levels, beyond which they are numbered: each is indented less

function lengthOf(stretches) {
  let found = 0;
  for (let at = 0; at < stretches.length; at += 2) found += stretches[at + 1] - stretches[at];
  return found;
}

const last = new Int32Array(count); // of each row, the last one below it
const above = new Int32Array(count).fill(-1);
const took = new Float64Array(count); // how long it ran
const held = new Float64Array(count); // how long the request waited for just this row
const heldBelow = new Float64Array(count); // and for what is below it
const isOpen = new Uint8Array(count).fill(1);
{
  const stack = [];
  for (let row = 0; row < count; row += 1) {
    while (stack.length && data.depth[stack[stack.length - 1]] >= data.depth[row]) last[stack.pop()] = row - 1;
    if (stack.length) above[row] = stack[stack.length - 1];
    stack.push(row);
    took[row] = lengthOf(data.parts[row] ?? [data.start[row], data.end[row]]);
    held[row] = lengthOf(data.path[row] ?? []);
  }
  while (stack.length) last[stack.pop()] = count - 1;
  for (let row = count - 1; row >= 0; row -= 1) {
    heldBelow[row] += held[row];
    if (above[row] >= 0) heldBelow[above[row]] += heldBelow[row];
  }
}

const $ = (id) => document.getElementById(id);
const make = (name, className, role) => {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (role) element.setAttribute('role', role);
  return element;
};
let since = 0;
let until = data.whole || 1;
let shown = new Int32Array(0); // rows that are not hidden, in order
let placeOf = new Int32Array(count);
let current = 0; // the row with the focus
let chosen = -1;
let hits = [];
let isHit = new Set();

const grid = make('div', 'grid', 'treegrid');
grid.setAttribute('aria-label', 'Spans in the order of the tree');
grid.setAttribute('aria-colcount', '5');
const ground = make('div', '', 'rowgroup');
grid.style.setProperty('--deepest', deepest);
const head = make('div', 'grid-head', 'row');
head.setAttribute('aria-rowindex', '1');
grid.append(head, ground);
for (const [text, className] of [['Span', ''], ['Stage', ''], ['Critical path', 'n'], ['Duration', 'n']]) {
  const cell = make('div', className, 'columnheader');
  cell.textContent = text;
  head.append(cell);
}
const ruler = make('div', 'ruler', 'columnheader');
ruler.setAttribute('aria-label', 'Over time');
ruler.append(make('span'), make('span'), make('span'));
head.append(ruler);
$('waterfall-rows').replaceChildren(grid);
$('tools').hidden = false;

const pool = [];
function pooled(place) {
  while (pool.length <= place) {
    const element = make('div', 'grid-row', 'row');
    const name = make('div', 'name', 'rowheader');
    const twist = make('button', 'twist');
    twist.type = 'button';
    twist.tabIndex = -1;
    const level = make('span', 'level quiet');
    const text = make('span');
    const notes = make('span', 'bad');
    const where = make('span', 'quiet');
    name.append(twist, level, text, notes, where);
    const stage = make('div', 'stage-name', 'gridcell');
    const swatch = make('i', 'swatch');
    const stageText = make('span');
    stage.append(swatch, stageText);
    const heldUp = make('div', 'n held-up', 'gridcell');
    const took = make('div', 'n took', 'gridcell');
    const bars = make('div', 'bars', 'gridcell');
    const svg = document.createElementNS(SVG, 'svg');
    svg.setAttribute('viewBox', `0 0 ${WIDTH} 20`);
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.setAttribute('class', 'row');
    svg.setAttribute('aria-hidden', 'true');
    const bar = document.createElementNS(SVG, 'path');
    const path = document.createElementNS(SVG, 'path');
    path.setAttribute('class', 'path');
    svg.append(bar, path);
    bars.append(svg);
    element.append(name, stage, heldUp, took, bars);
    ground.append(element);
    pool.push({ element, name, twist, level, text, notes, where, swatch, stageText, heldUp, took, bar, path, row: -1 });
  }
  return pool[place];
}

function outline(stretches, top, thick) {
  const scale = WIDTH / (until - since);
  if (stretches.length > MANY) return outlineOfMany(stretches, scale, top, thick);
  let d = '';
  for (let at = 0; at < stretches.length; at += 2) {
    if (stretches[at + 1] < since || stretches[at] > until) continue;
    const x = Math.max((stretches[at] - since) * scale, 0);
    const end = Math.min((stretches[at + 1] - since) * scale, WIDTH);
    d += `M${x.toFixed(1)} ${top}h${Math.max(end - x, 1.5).toFixed(1)}v${thick}H${x.toFixed(1)}z`;
  }
  if (!d && stretches.length) { // an arrow at the edge behind which it lies
    d = stretches[0] > until ? `M${WIDTH} ${top + thick / 2}l-6 -5v10z` : `M0 ${top + thick / 2}l6 -5v10z`;
  }
  return d;
}
function outlineOfMany(stretches, scale, top, thick) { // the pixels that any of them covers, as runs
  const covered = new Uint8Array(WIDTH);
  for (let at = 0; at < stretches.length; at += 2) {
    if (stretches[at + 1] < since || stretches[at] > until) continue;
    const first = Math.max(Math.floor((stretches[at] - since) * scale), 0);
    covered.fill(1, first, Math.min(Math.max(Math.ceil((stretches[at + 1] - since) * scale), first + 1), WIDTH));
  }
  let d = '';
  for (let x = 0; x < WIDTH; x += 1) {
    if (!covered[x]) continue;
    const end = covered.indexOf(0, x);
    d += `M${x} ${top}H${end < 0 ? WIDTH : end}v${thick}H${x}z`;
    x = end < 0 ? WIDTH : end;
  }
  return d;
}
const pathsBelow = new Map(); // of closed rows, the path of all that they hide
function pathBelow(row) {
  let found = pathsBelow.get(row);
  if (!found) {
    found = [];
    for (let at = row; at <= last[row]; at += 1) if (data.path[at]) found.push(...data.path[at]);
    pathsBelow.set(row, found);
  }
  return found;
}
function draw() {
  const first = Math.max(0, Math.floor(grid.scrollTop / ROW) - 2);
  const most = Math.min(shown.length - first, Math.ceil((grid.clientHeight || 600) / ROW) + 5);
  for (let place = 0; place < most; place += 1) fill(pooled(place), first + place);
  for (let place = Math.max(most, 0); place < pool.length; place += 1) pool[place].element.hidden = true;
}
function fill(slot, at) {
  const row = shown[at];
  const { element } = slot;
  const below = last[row] > row;
  slot.row = row;
  element.hidden = false;
  element.style.transform = `translateY(${at * ROW}px)`;
  element.tabIndex = row === current ? 0 : -1;
  element.className = `grid-row${row === chosen ? ' chosen' : ''}${isHit.has(row) ? ' hit' : ''}`;
  element.setAttribute('aria-rowindex', at + 2); // the first is the header
  element.setAttribute('aria-level', data.depth[row] + 1);
  element.setAttribute('aria-selected', row === chosen);
  if (below) element.setAttribute('aria-expanded', isOpen[row] === 1);
  else element.removeAttribute('aria-expanded');
  slot.name.style.setProperty('--depth', data.depth[row]);
  slot.level.textContent = deepest > DEEP ? data.depth[row] + 1 : '';
  slot.twist.textContent = below ? (isOpen[row] ? '▾' : '▸') : '';
  slot.twist.disabled = !below;
  slot.twist.setAttribute('aria-label', isOpen[row] ? 'Close' : 'Open');
  slot.twist.setAttribute('aria-hidden', !below);
  const hidden = below && !isOpen[row] ? ` (${last[row] - row})` : '';
  slot.text.textContent = data.texts[data.name[row]] + hidden;
  slot.text.title = `${data.texts[data.name[row]]} · ${data.texts[data.service[row]]}`;
  slot.notes.textContent = data.notes[row] ? ` ${data.notes[row]}` : '';
  slot.notes.className = failed.has(row) ? 'bad' : 'quiet';
  const changes = above[row] < 0 || data.service[row] !== data.service[above[row]];
  slot.where.textContent = changes && data.texts[data.service[row]] ? ` ${data.texts[data.service[row]]}` : '';
  const stage = data.texts[data.stage[row]];
  slot.swatch.className = `swatch s-${stage}`;
  slot.stageText.textContent = stage;
  slot.heldUp.textContent = held[row] ? duration(held[row]) : '';
  slot.took.textContent = duration(took[row]);
  slot.bar.setAttribute('class', `s-${stage}`);
  slot.bar.setAttribute('d', outline(data.parts[row] ?? [data.start[row], data.end[row]], 3, 10));
  const path = below && !isOpen[row] ? pathBelow(row) : data.path[row] ?? [];
  slot.path.setAttribute('d', path.length ? outline(path, 15, 4) : '');
}

function arrange() {
  const onlyPath = $('only-path').checked;
  const least = $('hide-small').checked ? data.whole / 100 : 0;
  const found = new Int32Array(count);
  let size = 0;
  placeOf = new Int32Array(count).fill(-1);
  for (let row = 0; row < count; row += 1) {
    const stays = (!onlyPath || heldBelow[row] > 0) && (took[row] >= least || isHit.has(row));
    if (stays) {
      placeOf[row] = size;
      found[size] = row;
      size += 1;
    }
    if (!isOpen[row] || !stays) row = last[row];
  }
  shown = found.slice(0, size);
  ground.style.height = `${size * ROW}px`;
  grid.setAttribute('aria-rowcount', size + 1); // with the header
  if (placeOf[current] < 0) current = shown[0] ?? 0;
  draw();
}
function openAbove(row) {
  for (let at = above[row]; at >= 0; at = above[at]) isOpen[at] = 1;
}
function focus(row, withFocus = true) {
  current = row;
  if (placeOf[row] < 0) {
    openAbove(row);
    $('only-path').checked = $('only-path').checked && heldBelow[row] > 0;
    $('hide-small').checked = $('hide-small').checked && took[row] >= data.whole / 100;
    arrange();
  }
  const top = placeOf[row] * ROW;
  if (top < grid.scrollTop) grid.scrollTop = top;
  else if (top + ROW > grid.scrollTop + grid.clientHeight - head.offsetHeight) grid.scrollTop = top - grid.clientHeight / 2;
  draw();
  if (withFocus) pool.find((slot) => slot.row === row && !slot.element.hidden)?.element.focus({ preventScroll: true });
}
function toggle(row, open) {
  if (last[row] === row) return;
  isOpen[row] = open ? 1 : 0;
  arrange();
}
function zoom(from, to) {
  since = Math.min(from, to);
  until = Math.max(since + 1, Math.max(from, to));
  const [left, middle, right] = ruler.querySelectorAll('span');
  left.textContent = duration(since);
  const alike = duration(since) === duration(until); // far in, where only the length is read
  middle.textContent = alike ? `+${duration((until - since) / 2)}` : duration((since + until) / 2);
  right.textContent = alike ? `+${duration(until - since)}` : duration(until);
  draw();
}

function link(row) {
  const address = new URL(location.href);
  address.searchParams.set('span_id', about.request);
  address.searchParams.set('span', data.span[row]);
  return address;
}
function details(row) {
  chosen = row;
  draw();
  history.replaceState(null, '', link(row));
  const asked = new XMLHttpRequest();
  asked.responseType = 'document';
  asked.open('GET', new URL(`requests/${about.trace}/spans/${data.span[row]}?start=${about.start}`, document.querySelector('.brand').href));
  asked.addEventListener('load', () => {
    const found = asked.response?.getElementById('span') ?? asked.response?.querySelector('main');
    if (found && chosen === row) $('detail').replaceChildren(...[...found.childNodes].map((node) => document.importNode(node, true)));
  });
  asked.addEventListener('error', () => { $('detail').textContent = 'The service does not answer: is it still running?'; });
  asked.send();
}
const rowOf = (target) => pool.find((slot) => slot.element === target.closest('.grid-row'))?.row ?? -1;
grid.addEventListener('click', (event) => {
  const row = rowOf(event.target);
  if (row < 0) return;
  if (event.target.closest('.twist')) { current = row; toggle(row, !isOpen[row]); return; }
  focus(row);
  details(row);
});
grid.addEventListener('dblclick', (event) => {
  const row = rowOf(event.target);
  if (row >= 0) zoom(data.start[row], data.end[row]);
});
let waits = false;
grid.addEventListener('scroll', () => {
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => { waits = false; draw(); });
}, { passive: true });

function find(text) {
  const wanted = text.trim().toLowerCase();
  hits = [];
  if (wanted) {
    const matches = data.texts.map((each) => each.toLowerCase().includes(wanted));
    for (let row = 0; row < count; row += 1) {
      if (matches[data.name[row]] || matches[data.stage[row]] || matches[data.service[row]] || data.span[row] === wanted) hits.push(row);
    }
  }
  isHit = new Set(hits);
  $('hits').textContent = wanted ? `${hits.length} found` : '';
  arrange();
  if (hits.length) focus(hits[0], false);
}
function next(rows, forward) {
  if (!rows.length) return;
  const after = forward ? rows.find((row) => row > current) : rows.findLast((row) => row < current);
  focus(after ?? (forward ? rows[0] : rows[rows.length - 1]));
  const place = hits.indexOf(current);
  if (place >= 0) $('hits').textContent = `${place + 1} of ${hits.length}`;
}
$('find').addEventListener('input', (event) => find(event.target.value));
$('find').addEventListener('keydown', (event) => { if (event.key === 'Enter') next(hits, !event.shiftKey); });
$('only-path').addEventListener('change', arrange);
$('hide-small').addEventListener('change', arrange);
$('collapse').addEventListener('click', () => { isOpen.fill(0); isOpen[0] = 1; arrange(); });
$('expand').addEventListener('click', () => { isOpen.fill(1); arrange(); });
$('whole').addEventListener('click', () => zoom(0, data.whole || 1));

const onPath = () => Object.keys(data.path).map(Number);
grid.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const place = placeOf[current];
  const width = until - since;
  const keys = {
    ArrowDown: () => focus(shown[Math.min(place + 1, shown.length - 1)]),
    ArrowUp: () => focus(shown[Math.max(place - 1, 0)]),
    ArrowRight: () => (isOpen[current] || last[current] === current ? focus(shown[Math.min(place + 1, shown.length - 1)]) : toggle(current, true)),
    ArrowLeft: () => (isOpen[current] && last[current] > current ? toggle(current, false) : focus(Math.max(above[current], 0))),
    Home: () => focus(shown[0]),
    End: () => focus(shown[shown.length - 1]),
    Enter: () => details(current),
    f: () => zoom(data.start[current], data.end[current]),
    0: () => zoom(0, data.whole || 1),
    '+': () => zoom(since + width / 4, until - width / 4),
    '-': () => zoom(Math.max(0, since - width / 2), Math.min(data.whole, until + width / 2)),
    p: () => next(onPath(), true),
    P: () => next(onPath(), false),
    n: () => next(hits, true),
    N: () => next(hits, false),
    c: () => navigator.clipboard?.writeText(link(current).href).then(() => { $('said').textContent = 'The link to the span is copied.'; }),
  };
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  event.stopPropagation();
  act();
});

function brushed(element, onEnd) {
  const mark = make('div', 'brush');
  element.addEventListener('pointerdown', (event) => {
    const box = element.getBoundingClientRect();
    const from = event.clientX - box.left;
    element.setPointerCapture(event.pointerId);
    const move = (moved) => {
      const to = Math.min(Math.max(moved.clientX - box.left, 0), box.width);
      element.append(mark);
      mark.style.left = `${Math.min(from, to)}px`;
      mark.style.width = `${Math.abs(to - from)}px`;
    };
    const forget = () => {
      element.removeEventListener('pointermove', move);
      element.removeEventListener('pointerup', up);
      element.removeEventListener('pointercancel', forget);
      mark.remove();
    };
    const up = (ended) => {
      forget();
      const to = Math.min(Math.max(ended.clientX - box.left, 0), box.width);
      onEnd(from / box.width, to / box.width, Math.abs(to - from) >= 5);
    };
    element.addEventListener('pointermove', move);
    element.addEventListener('pointerup', up);
    element.addEventListener('pointercancel', forget); // a finger scrolls
  });
}
brushed(ruler, (from, to, isDrag) => {
  if (isDrag) zoom(since + from * (until - since), since + to * (until - since));
});
brushed($('overview-bar'), (from, to, isDrag) => {
  if (isDrag) { zoom(from * data.whole, to * data.whole); return; }
  const at = from * data.whole;
  const row = onPath().find((one) => data.path[one].some((edge, place) => place % 2 === 0 && edge <= at && at < data.path[one][place + 1]));
  if (row !== undefined) { focus(row); details(row); }
});
for (const other of document.querySelectorAll('a[data-span]')) {
  other.addEventListener('click', (event) => {
    const row = data.span.indexOf(other.dataset.span);
    if (row < 0) return;
    event.preventDefault();
    $('waterfall').scrollIntoView({ block: 'start' });
    focus(row);
    details(row);
  });
}

if (count > LARGE) for (let row = 0; row < count; row += 1) if (data.depth[row] >= 1 || !heldBelow[row]) isOpen[row] = 0;
zoom(0, data.whole || 1);
arrange();
addEventListener('resize', draw);
const opened = new URL(location.href).searchParams.get('span');
if (opened && data.span.includes(opened)) { chosen = data.span.indexOf(opened); focus(chosen, false); draw(); }
grid.dataset.ready = 'yes';
