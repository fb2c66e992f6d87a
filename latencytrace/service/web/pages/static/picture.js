// Pictures with a pointer on them: the point below it, a text beside it, and their place on a page that refreshes.
export function onPicture(svg) {
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
    atEnd: () => { // the newest are at the right end
      const scroll = svg.closest('.scroll');
      scroll.scrollLeft = scroll.scrollWidth;
    },
  };
}

// The moment at which a column begins, to the microsecond.
export function momentOf(scale, column) {
  return instantOf(BigInt(scale.since) + BigInt(Math.max(column, 0)) * BigInt(scale.column_ns));
}
export function instantOf(at) {
  const rest = String((at % 1000000000n) / 1000n).padStart(6, '0');
  return `${new Date(Number(at / 1000000000n) * 1000).toISOString().slice(0, 19)}.${rest}Z`;
}

// Begin with each such element: those that are there, and those that a refresh puts in their place.
export function swapped(selector, begin) {
  const all = () => { for (const one of document.querySelectorAll(`${selector}:not([data-ready])`)) begin(one); };
  document.addEventListener('swapped', all);
  all();
}
