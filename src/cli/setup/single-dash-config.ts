/**
 * `-config file` and `-config=file` as `--config`, which is what parsers of today take for a name of many
 * letters.
 */
export function singleDashConfig(args: readonly string[]): string[] {
  const end = args.indexOf('--');
  return args.map((arg, index) =>
    /^-config(=|$)/.test(arg) && (end === -1 || index < end) ? `-${arg}` : arg,
  );
}
