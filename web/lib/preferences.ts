import { useSyncExternalStore } from 'react';
import type { Zone } from './show.ts';

/**
 * What somebody chose for this browser: the theme, whether times are local or in UTC, and whether single keys
 * do something.
 */

const listeners = new Set<() => void>();
const tell = (): void => {
  for (const listener of listeners) listener();
};
const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

function read(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}
function write(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // A browser that keeps nothing asks again next time.
  }
  tell();
}

type Theme = 'light' | 'dark';
export const useTheme = (): Theme =>
  useSyncExternalStore(subscribe, () =>
    document.documentElement.dataset['theme'] === 'dark' ? 'dark' : 'light',
  );
export function setTheme(theme: Theme): void {
  document.documentElement.dataset['theme'] = theme;
  write('theme', theme);
}

let zone: Zone = read('zone') === 'utc' ? 'utc' : 'local';
export const useZone = (): Zone => useSyncExternalStore(subscribe, () => zone);
export function setZone(chosen: Zone): void {
  zone = chosen;
  write('zone', chosen);
}

let hasSingleKeys = read('single-keys') !== 'off';
/**
 * Whether shortcuts of keys without Ctrl or Alt work. Who speaks to the computer, or touches keys unawares,
 * turns them off.
 */
export const useSingleKeys = (): boolean => useSyncExternalStore(subscribe, () => hasSingleKeys);
export function setSingleKeys(chosen: boolean): void {
  hasSingleKeys = chosen;
  write('single-keys', chosen ? 'on' : 'off');
}
