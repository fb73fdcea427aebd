type Value = string | number | null;

/**
 * Names of four values, each made once: to join them for every call costs more than to compare it. There are
 * as many as days or intervals × models × credentials × tiers. Pure.
 */
export class CellNames {
  readonly #names = new Map<Value, Map<Value, Map<Value, Map<Value, string>>>>();

  of(first: Value, second: Value, third: Value, fourth: Value): string {
    const ofSecond = within(this.#names, first);
    const ofThird = within(ofSecond, second);
    const ofFourth = within(ofThird, third);
    let name = ofFourth.get(fourth);
    if (name === undefined) ofFourth.set(fourth, (name = JSON.stringify([first, second, third, fourth])));
    return name;
  }
}

function within<T>(maps: Map<Value, Map<Value, T>>, value: Value): Map<Value, T> {
  let found = maps.get(value);
  if (found === undefined) maps.set(value, (found = new Map<Value, T>()));
  return found;
}
