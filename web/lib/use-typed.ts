import { useEffect, useEffectEvent, useState } from 'react';

/** Longer than between two letters that are typed. */
const TYPING_MS = 250;

/**
 * The text of a field that narrows what an address names. The field has each letter at once, and the
 * address the text once nobody types any more: it follows too late to hold what is being typed.
 * @param value what the address says; when that changes by other means, the field follows.
 */
export function useTyped(
  value: string,
  onSettle: (text: string) => void,
): [text: string, type: (text: string) => void] {
  const [text, setText] = useState(value);
  const [known, setKnown] = useState({ value, sent: value });
  if (value !== known.value) {
    setKnown({ value, sent: value });
    if (value !== known.sent) setText(value);
  }
  const settle = useEffectEvent(onSettle);
  const { sent } = known;
  useEffect(() => {
    if (text === sent) return undefined;
    const timer = setTimeout(() => {
      setKnown((before) => ({ ...before, sent: text }));
      settle(text);
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [text, sent]);
  return [text, setText];
}
