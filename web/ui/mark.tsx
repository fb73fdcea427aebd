/** The Daybook logo. */
export function Mark({ size = 22 }: { size?: number }) {
  return <img src="/icon.svg" alt="" width={size} height={size} />;
}
