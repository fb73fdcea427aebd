import { buttonClass } from './button.tsx';
import { Icon } from './icon.tsx';

/** A download link. */
export function Download({
  href,
  name,
  title,
}: {
  href: string;
  /** The format, such as "CSV". */ name: string;
  title: string;
}) {
  return (
    <a href={href} download className={buttonClass()} title={title}>
      <Icon name="download" />
      {name}
    </a>
  );
}
