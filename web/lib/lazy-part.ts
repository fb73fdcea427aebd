import { type ComponentType, lazy, type LazyExoticComponent } from 'react';
import { whenReachable } from './when-reachable.ts';

/**
 * A component that is loaded when it is first shown, such as a dialog. It waits for a server that restarts.
 * @param name its export of the module.
 */
export function lazyPart<Name extends string, Props extends object>(
  load: () => Promise<Record<Name, ComponentType<Props>>>,
  name: Name,
): LazyExoticComponent<ComponentType<Props>> {
  return lazy(async () => ({ default: (await whenReachable(load))[name] }));
}
