// Pictures with a pointer or a cursor on them: cells, a text beside them, and their place on a page that refreshes.
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

export function onPicture(svg) {
  svg.setAttribute('role', 'application'); // screen readers hand its keys on
  svg.setAttribute('aria-roledescription', 'interactive picture');
  svg.setAttribute('aria-describedby', 'picture-keys');
  svg.setAttribute('tabindex', '0');
  const shown = document.createElement('div');
  shown.className = 'tip';
  shown.hidden = true;
  svg.closest('.scroll').append(shown);
  return {
    brush: svg.querySelector('.brush'),
    point: (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()),
    tip: (event, text) => {
      shown.hidden = !text;
      shown.textContent = text;
      shown.style.left = `${Math.min(event.clientX + 14, innerWidth - 280)}px`;
      shown.style.top = `${event.clientY + 14}px`;
    },
  };
}

// Keys that move a cursor over cells and, with Shift, select from where it stood: [column, row] each.
export function onKeys(svg, { first, bounds, mark, tell, open, forget }) {
  let anchor = first;
  let cursor = first;
  const show = () => {
    mark(anchor, cursor);
    svg.querySelector('.brush').scrollIntoView({ block: 'nearest', inline: 'nearest' });
    document.getElementById('said').textContent = tell(anchor, cursor);
  };
  svg.addEventListener('focus', () => { if (svg.matches(':focus-visible')) show(); });
  svg.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = STEPS[event.key];
    if (step && (step[0] || bounds.low < bounds.high)) {
      event.preventDefault();
      cursor = within(bounds, [cursor[0] + step[0], cursor[1] + step[1]]);
      if (!event.shiftKey) anchor = cursor;
      show();
    } else if (event.key === 'Enter') open(anchor, cursor);
    else if (event.key === 'Escape') {
      anchor = cursor;
      forget();
    }
  });
}
export function within(bounds, [column, row]) {
  return [Math.min(Math.max(column, 0), bounds.last), Math.min(Math.max(row, bounds.low), bounds.high)];
}
export const lastColumn = (scale) => Number((BigInt(scale.until) - BigInt(scale.since) - 1n) / BigInt(scale.column_ns));

// The moment at which a column begins; none is after the end of the picture.
export function momentOf(scale, column) {
  const at = BigInt(scale.since) + BigInt(Math.max(column, 0)) * BigInt(scale.column_ns);
  return instantOf(column > lastColumn(scale) ? BigInt(scale.until) : at);
}
export const inWords = (moment) => `${moment.slice(0, 19).replace('T', ' ')} UTC`;
export const counted = (requests) => `${requests.toLocaleString('en-US')} request${requests === 1 ? '' : 's'}`;
export function instantOf(at) {
  const rest = String((at % 1000000000n) / 1000n).padStart(6, '0').replace(/0+$/, '');
  return `${new Date(Number(at / 1000000000n) * 1000).toISOString().slice(0, 19)}${rest && '.'}${rest}Z`;
}

// Begin with each such element: those that are there, and those that a refresh puts in their place.
export function swapped(selector, begin) {
  const all = () => { for (const one of document.querySelectorAll(`${selector}:not([data-ready])`)) begin(one); };
  document.addEventListener('swapped', all);
  all();
}
