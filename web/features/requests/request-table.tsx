import { useVirtualizer } from '@tanstack/react-virtual';
import {
  type FocusEvent,
  type KeyboardEvent,
  type ReactNode,
  type Ref,
  useEffect,
  useImperativeHandle,
  useMemo,
  useRef,
  useState,
} from 'react';
import type { RequestRow } from '#server/contract/requests.ts';
import { useAccountNames, useIsOverseer, useKeyNames } from '../../lib/names.ts';
import { useZone } from '../../lib/preferences.ts';
import { useMedia } from '../../lib/use-media.ts';
import { useNow } from '../../lib/use-now.ts';
import {
  columnsFor,
  LINE_HEIGHT_PX,
  type Reading,
  RequestLine,
  type Room,
  templateOf,
} from './request-line.tsx';
import type { Hold } from './use-hold.ts';

/** What is left of the window by the head of the page. */
export const HEIGHT = 'h-[max(24rem,calc(100dvh-17.5rem))]';
const OVERSCAN_ROWS = 8;
/** So near to the end more is fetched. */
const NEAR_END_ROWS = 15;
const STEPS: Record<string, number> = {
  ArrowDown: 1,
  ArrowUp: -1,
  PageDown: 10,
  PageUp: -10,
  Home: -Infinity,
  End: Infinity,
};

export type TableHandle = {
  /** Moves the focus by so many rows; into the table, where it is elsewhere. */
  move: (step: number) => void;
  /** Back to the top, and out of it. */
  leave: () => void;
};

type TableProps = {
  rows: readonly RequestRow[];
  /** The one that is looked at. */
  open: string | undefined;
  hold: Hold;
  onOpen: (request: string) => void;
  /** The end of the list is near. */
  onNearEnd: () => void;
  /** In place of rows, where there are none. */
  empty: ReactNode;
  ref: Ref<TableHandle>;
};

/** The requests as a table of which only the part is drawn that is in sight. */
export function RequestTable({ rows, open, hold, onOpen, onNearEnd, empty, ref }: TableProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const isNarrow = useMedia('(width < 72rem)');
  const isWide = useMedia('(width >= 84rem)');
  const room: Room = isNarrow ? 'narrow' : isWide ? 'wide' : 'middle';
  const reading = useReading();
  const columns = useMemo(() => columnsFor(room, reading.hasAccounts), [room, reading.hasAccounts]);
  const template = templateOf(columns);
  const [at, setAt] = useState(0);
  // Its functions are called here alone and never passed on.
  // oxlint-disable-next-line react/incompatible-library
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_HEIGHT_PX[room],
    overscan: OVERSCAN_ROWS,
  });
  useEffect(() => virtual.measure(), [virtual, room]);
  const lines = virtual.getVirtualItems();
  const last = lines.at(-1)?.index ?? 0;
  const isNearEnd = last >= rows.length - NEAR_END_ROWS;
  useEffect(() => {
    if (isNearEnd) onNearEnd();
  });

  const focus = (index: number): void => {
    if (rows.length === 0) return;
    const wanted = Math.max(0, Math.min(rows.length - 1, index));
    setAt(wanted);
    virtual.scrollToIndex(wanted);
    const find = (): HTMLElement | null | undefined =>
      scroller.current?.querySelector<HTMLElement>(`[data-index="${wanted}"]`);
    const there = find();
    if (there) there.focus({ preventScroll: true });
    // It has to be drawn first.
    else requestAnimationFrame(() => requestAnimationFrame(() => find()?.focus({ preventScroll: true })));
  };
  useImperativeHandle(ref, () => ({
    move: (step) =>
      focus(
        scroller.current?.contains(document.activeElement) === true
          ? at + step
          : (virtual.range?.startIndex ?? 0),
      ),
    leave: () => {
      if (
        document.activeElement instanceof HTMLElement &&
        scroller.current?.contains(document.activeElement) === true
      )
        document.activeElement.blur();
      scroller.current?.scrollTo({ top: 0 });
      setAt(0);
    },
  }));
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = STEPS[event.key];
    if (event.key === 'Escape' && document.activeElement instanceof HTMLElement)
      document.activeElement.blur();
    if (step === undefined) return;
    event.preventDefault();
    focus(Number.isFinite(step) ? at + step : step < 0 ? 0 : rows.length - 1);
  };
  const onFocus = ({ target }: FocusEvent): void => {
    hold.set('focus', true);
    const index = (target as HTMLElement).dataset['index'];
    if (index !== undefined) setAt(Number(index));
  };
  const reachable = lines.some(({ index }) => index === at) ? at : lines[0]?.index;

  if (rows.length === 0) return <div className={`grid content-center ${HEIGHT}`}>{empty}</div>;
  return (
    <div
      role="grid"
      aria-label="Requests, newest first"
      aria-rowcount={rows.length + 1}
      className={`flex flex-col ${HEIGHT}`}
    >
      {columns.length > 0 && (
        <div role="rowgroup" className="overflow-hidden border-b border-line [scrollbar-gutter:stable]">
          <div
            role="row"
            aria-rowindex={1}
            className="grid gap-x-3 px-4 py-2 text-muted"
            style={{ gridTemplateColumns: template }}
          >
            {columns.map(({ name, isRight }) => (
              <div
                key={name}
                role="columnheader"
                className={`whitespace-nowrap ${isRight === true ? 'text-right' : ''}`}
              >
                {name}
              </div>
            ))}
          </div>
        </div>
      )}
      <div
        ref={scroller}
        role="rowgroup"
        className="min-h-0 flex-1 overflow-y-auto overscroll-contain [scrollbar-gutter:stable]"
        onScroll={({ currentTarget }) => hold.set('scroll', currentTarget.scrollTop > LINE_HEIGHT_PX[room])}
        onPointerEnter={({ pointerType }) => pointerType === 'mouse' && hold.set('pointer', true)}
        onPointerLeave={() => hold.set('pointer', false)}
        onFocus={onFocus}
        onBlur={({ currentTarget, relatedTarget }) =>
          currentTarget.contains(relatedTarget) || hold.set('focus', false)
        }
        onKeyDown={onKeyDown}
      >
        <div role="presentation" className="relative" style={{ height: virtual.getTotalSize() }}>
          {lines.map(({ index, start }) => {
            const row = rows[index];
            return (
              row && (
                <RequestLine
                  key={index}
                  row={row}
                  index={index}
                  startPx={start}
                  columns={columns}
                  template={template}
                  reading={reading}
                  isReachable={index === reachable}
                  isOpen={row.request === open}
                  onOpen={onOpen}
                />
              )
            );
          })}
        </div>
      </div>
    </div>
  );
}

/** Stays the same while nothing of it changes: lines are drawn anew only for news of their own. */
function useReading(): Reading {
  const zone = useZone();
  const keyName = useKeyNames();
  const hasAccounts = useIsOverseer();
  const names = useAccountNames();
  const accountName = hasAccounts ? names : null;
  const nowMs = useNow(60_000);
  return useMemo(
    () => ({ zone, nowMs, keyName, accountName: accountName ?? String, hasAccounts }),
    [zone, nowMs, keyName, accountName, hasAccounts],
  );
}
