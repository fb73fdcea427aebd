import type { ReactNode } from 'react';

/**
 * A plain table for lists of up to some hundreds of rows; longer ones are virtual and draw their own
 * rows. On a narrow screen it scrolls sideways inside its frame, and can be scrolled by keyboard.
 */
export type Column<Row> = {
  head: ReactNode;
  cell: (row: Row) => ReactNode;
  /** Numbers stand at the right. */
  align?: 'left' | 'right';
  /** Left out on narrow screens: what a row can do without. */
  isExtra?: boolean;
};

/** What can be done with a row, at its end. */
export const actionsColumn = <Row,>(cell: Column<Row>['cell']): Column<Row> => ({
  head: <span className="sr-only">Actions</span>,
  align: 'right',
  cell,
});

type TableProps<Row> = {
  /** What it lists, for readers. */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  /** Instead of rows, where there are none. */
  empty?: ReactNode;
};

export function Table<Row>({ label, columns, rows, keyOf, empty }: TableProps<Row>) {
  if (rows.length === 0 && empty !== undefined) return <>{empty}</>;
  const side = ({ align, isExtra }: Column<Row>): string =>
    `${align === 'right' ? 'text-right whitespace-nowrap' : 'text-left'} ${isExtra === true ? 'max-md:hidden' : ''}`;
  return (
    <div className="relative overflow-x-auto" tabIndex={0} role="region" aria-label={label}>
      <table className="w-full border-collapse">
        <thead>
          <tr className="border-b border-line text-muted">
            {columns.map((column, index) => (
              <th
                key={index}
                scope="col"
                className={`px-4 py-2 font-normal whitespace-nowrap ${side(column)}`}
              >
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} className="border-b border-line last:border-b-0 hover:bg-sunken">
              {columns.map((column, index) => (
                <td key={index} className={`px-4 py-2 align-top ${side(column)}`}>
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
