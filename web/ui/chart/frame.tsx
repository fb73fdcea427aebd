import { type ReactNode, useState } from 'react';
import { Button } from '../button.tsx';
import { Card } from '../layout/parts.tsx';

/** A chart with an equivalent table view of the same height. */
export function ChartFrame({
  title,
  actions,
  chart,
  table,
}: {
  title: ReactNode;
  actions?: ReactNode;
  chart: ReactNode;
  table: ReactNode;
}) {
  const [isTable, setTable] = useState(false);
  return (
    <Card
      title={title}
      flush={isTable}
      actions={
        <>
          {actions}
          <Button
            look="quiet"
            icon={isTable ? 'bars' : 'list'}
            aria-label={isTable ? 'Show as chart' : 'Show as table'}
            onClick={() => setTable(!isTable)}
            className="-mr-3"
          >
            {isTable ? 'Chart' : 'Table'}
          </Button>
        </>
      }
    >
      {isTable ? <div className="h-[17.25rem] overflow-y-auto">{table}</div> : chart}
    </Card>
  );
}
