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
import { useAccountNames, useIsOverseer, useKeyNames } from '../../lib/api/names.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import { useMedia } from '../../lib/hooks/use-media.ts';
import { useNow } from '../../lib/hooks/use-now.ts';
import {
  columnsFor,
  LINE_HEIGHT_PX,
  type CellContext,
  RequestLine,
  type Room,
  templateOf,
} from './request-line.tsx';
import type { Pause } from './use-pause.ts';

/** The viewport height below the page header. */
export const HEIGHT = 'h-[max(24rem,calc(100dvh-17.5rem))]';
const OVERSCAN_ROWS = 8;
/** Fetches more within this many rows of the end. */
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
  /** Moves the focus by a number of rows, or into the table. */
  move: (step: number) => void;
  /** Scrolls to the top and removes the focus. */
  leave: () => void;
};

type TableProps = {
  rows: readonly RequestRow[];
  /** The request whose details are open. */
  open: string | undefined;
  pause: Pause;
  onOpen: (request: string) => void;
  /** Called when scrolled close to the end. */
  onNearEnd: () => void;
  /** Shown instead of an empty table. */
  empty: ReactNode;
  ref: Ref<TableHandle>;
};

/** A virtualized table of requests. */
export function RequestTable({ rows, open, pause, onOpen, onNearEnd, empty, ref }: TableProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const isNarrow = useMedia('screen and (width < 72rem)');
  const isWide = useMedia('(width >= 84rem)');
  const room: Room = isNarrow ? 'narrow' : isWide ? 'wide' : 'middle';
  const context = useCellContext();
  const { hasAccounts } = context;
  const hasEndUsers = rows.some(({ end_user }) => end_user !== null);
  const columns = useMemo(
    () => columnsFor(room, { hasAccounts, hasEndUsers }),
    [room, hasAccounts, hasEndUsers],
  );
  const template = templateOf(columns);
  const [at, setAt] = useState(0);
  // Its functions are only called here and never passed on.
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
    // The row must be rendered first.
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
    pause.set('focus', true);
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
      {columns.length > 0 && <Header columns={columns} template={template} />}
      <div
        ref={scroller}
        role="rowgroup"
        className="min-h-0 flex-1 overflow-y-auto overscroll-contain [scrollbar-gutter:stable]"
        onScroll={({ currentTarget }) => pause.set('scroll', currentTarget.scrollTop > LINE_HEIGHT_PX[room])}
        onPointerEnter={({ pointerType }) => pointerType === 'mouse' && pause.set('pointer', true)}
        onPointerLeave={() => pause.set('pointer', false)}
        onFocus={onFocus}
        onBlur={({ currentTarget, relatedTarget }) =>
          currentTarget.contains(relatedTarget) || pause.set('focus', false)
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
                  context={context}
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

function Header({ columns, template }: { columns: ReturnType<typeof columnsFor>; template: string }) {
  return (
    <div role="rowgroup" className="overflow-hidden border-b border-line [scrollbar-gutter:stable]">
      <div
        role="row"
        aria-rowindex={1}
        className="grid gap-x-3 px-4 py-2 text-muted"
        style={{ gridTemplateColumns: template }}
      >
        {columns.map(({ name, title, isRight }) => (
          <div
            key={name}
            role="columnheader"
            title={title}
            className={`whitespace-nowrap ${isRight === true ? 'text-right' : ''}`}
          >
            {name}
          </div>
        ))}
      </div>
    </div>
  );
}

/** Memoized, so that rows are rendered only when they change. */
function useCellContext(): CellContext {
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
