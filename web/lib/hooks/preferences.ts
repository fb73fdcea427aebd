import { useSyncExternalStore } from 'react';
import type { Zone } from '../format/show.ts';

/** Preferences stored in this browser: theme, time zone and single-key shortcuts. */

const listeners = new Set<() => void>();
const notify = (): void => {
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
    // Without storage the preference lasts until the page is closed.
  }
  notify();
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
/** Whether shortcuts without Ctrl or Alt are enabled. They may conflict with dictation software. */
export const useSingleKeys = (): boolean => useSyncExternalStore(subscribe, () => hasSingleKeys);
export function setSingleKeys(chosen: boolean): void {
  hasSingleKeys = chosen;
  write('single-keys', chosen ? 'on' : 'off');
}
