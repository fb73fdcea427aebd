import { buttonClass } from './button.tsx';
import { Icon } from './icon.tsx';

/** What a page shows, as a file. */
export function Download({
  href,
  name,
  title,
}: {
  href: string;
  /** Its kind: "CSV". */ name: string;
  title: string;
}) {
  return (
    <a href={href} download className={buttonClass()} title={title}>
      <Icon name="download" />
      {name}
    </a>
  );
}
