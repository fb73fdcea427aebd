/** Amounts as people write them. Pure. */

/** How many digits of a decimal fraction each scale makes whole. */
const SCALES: Record<string, number> = { '': 0, k: 3, m: 6, b: 9 };

/** Reads "1,000,000", "250k" or "1.5m". Null where it is no whole number that can be kept. */
export function readAmount(text: string): number | null {
  const [, whole = '', fraction = '', scale = ''] = /^([\d,_ ]*\d)(?:\.(\d+?)0*)?\s*([kmb]?)$/i.exec(text.trim()) ?? [];
  const digits = SCALES[scale.toLowerCase()] ?? 0;
  if (whole === '' || (fraction.length > digits && fraction !== '0')) return null;
  const value = Number(whole.replaceAll(/[,_ ]/g, '') + fraction.slice(0, digits).padEnd(digits, '0'));
  return Number.isSafeInteger(value) ? value : null;
}

/** Reads "12.50" or "$1,000" as micro-dollars. */
export function readDollars(text: string): number | null {
  const digits = text.trim().replace(/^\$\s*/, '').replaceAll(/[,_ ]/g, '');
  if (!/^\d+(\.\d{0,6})?$/.test(digits)) return null;
  const value = Math.round(Number(digits) * 1e6);
  return Number.isSafeInteger(value) ? value : null;
}
