/** The encodings that an Accept-Encoding header names. The client takes none of weight zero. Pure. */
export function contentEncodings(accepted = ''): ReadonlySet<string> {
  const taken = accepted
    .toLowerCase()
    .split(',')
    .filter((each) => !/;\s*q=0(\.0*)?\s*$/.test(each))
    .map((each) => each.split(';', 1)[0]?.trim() ?? '');
  return new Set(taken);
}
