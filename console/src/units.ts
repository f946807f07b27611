// Numbers and sizes.

const number = new Intl.NumberFormat();

export const count = (n: number): string => number.format(n);

/** Shows a duration. */
export const duration = (ms: number): string => (ms < 1000 ? `${ms} ms` : `${number.format(Math.round(ms / 100) / 10)} s`);

export function bytes(n: number): string {
  const units = ['B', 'KB', 'MB', 'GB'];
  let at = 0;
  while (n >= 1000 && at < units.length - 1) (n /= 1000), at++;
  return `${at === 0 ? n : n.toFixed(1)} ${units[at]}`;
}
