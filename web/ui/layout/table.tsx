import type { ReactNode } from 'react';

/**
 * A table for up to some hundred rows; longer lists are virtualized. Scrolls horizontally on narrow screens,
 * also by keyboard.
 */
export type Column<Row> = {
  head: ReactNode;
  cell: (row: Row) => ReactNode;
  /** `right` for numbers. */
  align?: 'left' | 'right';
  /** Hidden on narrow screens. */
  isExtra?: boolean;
};

/** A column of row actions. */
export const actionsColumn = <Row,>(cell: Column<Row>['cell']): Column<Row> => ({
  head: <span className="sr-only">Actions</span>,
  align: 'right',
  cell,
});

type TableProps<Row> = {
  /** The accessible name. */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  /** Shown instead of an empty table. */
  empty?: ReactNode;
};

/** Columns are closer on narrow screens. */
const CELL = 'px-2 py-2 first:pl-4 last:pr-4 md:px-4';

export function Table<Row>({ label, columns, rows, keyOf, empty }: TableProps<Row>) {
  if (rows.length === 0 && empty !== undefined) return <>{empty}</>;
  const side = ({ align, isExtra }: Column<Row>): string =>
    [
      align === 'right' ? 'text-right whitespace-nowrap' : 'text-left',
      isExtra === true ? 'max-md:hidden' : '',
    ].join(' ');
  return (
    <div className="relative overflow-x-auto" tabIndex={0} role="region" aria-label={label}>
      <table className="w-full border-collapse">
        <thead>
          <tr className="border-b border-line text-muted">
            {columns.map((column, index) => (
              <th key={index} scope="col" className={`${CELL} font-normal whitespace-nowrap ${side(column)}`}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} className="border-b border-line last:border-b-0 hover:bg-sunken">
              {columns.map((column, index) => (
                <td key={index} className={`${CELL} align-top ${side(column)}`}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
