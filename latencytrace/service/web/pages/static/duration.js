// A duration in words, digit for digit as the service writes it (`model/texts/units.py`).
const UNITS = [['s', 1e9], ['ms', 1e6], ['µs', 1e3]];

export function duration(ns) {
  if (ns < 0) return `-${duration(-ns)}`;
  if (ns >= 60e9 * 0.99995) return long(Number(rounded(ns / 1e9, 0)));
  for (const [unit, size] of UNITS) if (ns >= 0.9995 * size) return `${threeDigits(ns / size)} ${unit}`;
  const text = rounded(ns, 0);
  return text === '0' ? text : `${text} ns`;
}
function long(seconds) {
  const minutes = Number(rounded(seconds / 60, 0));
  const hours = Number(rounded(seconds / 3600, 0));
  const two = (value) => String(value).padStart(2, '0');
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  return `${Math.floor(hours / 24).toLocaleString('en-US')} d ${two(hours % 24)} h`;
}
function threeDigits(value) {
  return rounded(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}
function rounded(value, digits) { // Python rounds a half to the even digit, `toFixed` rounds it up
  const up = value.toFixed(digits);
  const isHalf = (value * 2 ** (digits + 1)) % 2 === 1;
  return isHalf && Number(up.at(-1)) % 2 ? (value - 0.004).toFixed(digits) : up;
}
