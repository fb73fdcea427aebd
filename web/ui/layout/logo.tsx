/** The Daybook logo. */
export function Logo({ size = 22 }: { size?: number }) {
  return <img src="/icon.svg" alt="" width={size} height={size} />;
}
