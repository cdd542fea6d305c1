/*
 * The rules for claims in the ID token of a trusted publisher. They are used to check the configuration, and
 * each time a token is exchanged.
 */

/** A condition for a claim: it must have a certain value, or one of several values, or match a pattern. */
export type ClaimRule = string | readonly string[] | { glob: string };
export type ClaimRules = Readonly<Record<string, ClaimRule>>;

/**
 * Returns the claims that break a rule, in the order of the rules. Only a string can match. If a claim is a
 * number, a Boolean or a list, or if there is no such claim, that breaks the rule.
 */
export function violatedClaims(rules: ClaimRules, claims: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(rules)
    .filter(([name, rule]) => !matches(rule, Object.hasOwn(claims, name) ? claims[name] : undefined))
    .map(([name]) => name);
}

/**
 * Reports whether a person's claims satisfy the rules for a role. In a list of strings, such as groups, at
 * least one of them has to match. `email` counts only if the issuer has verified it, because people may be
 * able to enter whatever they want.
 */
export function satisfiesRules(rules: ClaimRules, claims: Readonly<Record<string, unknown>>): boolean {
  return Object.entries(rules).every(([name, rule]) => {
    if (!Object.hasOwn(claims, name)) return false;
    if (name === 'email' && claims['email_verified'] !== true) return false;
    const value = claims[name];
    return Array.isArray(value) ? value.some((one) => matches(rule, one)) : matches(rule, value);
  });
}

function matches(rule: ClaimRule, value: unknown): boolean {
  if (typeof value !== 'string') return false;
  if (typeof rule === 'string') return rule === value;
  return 'glob' in rule ? matchesGlob(rule.glob, value) : rule.includes(value);
}

/**
 * Reports whether the value matches the pattern. A `*` stands for any characters other than `/`. The time it
 * takes is proportional to the length of the value.
 */
export function matchesGlob(pattern: string, value: string): boolean {
  const wanted = pattern.split('/');
  const found = value.split('/');
  return (
    wanted.length === found.length && wanted.every((part, index) => matchesPart(part, found[index] ?? ''))
  );
}

function matchesPart(pattern: string, value: string): boolean {
  const [first = '', ...others] = pattern.split('*');
  const last = others.pop();
  if (last === undefined) return pattern === value;
  if (!value.startsWith(first) || !value.endsWith(last)) return false;
  const end = value.length - last.length;
  let at = first.length;
  for (const part of others) {
    const found = value.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return at <= end;
}

/**
 * Claims that contain a name. The owner of a name may give it up and someone else may register it, so there
 * must also be an exact value for one of these ids.
 */
const idsOfNames: Readonly<Record<string, readonly string[]>> = {
  repository: ['repository_id', 'repository_owner_id'],
  repository_owner: ['repository_owner_id', 'repository_id'],
  project_path: ['project_id'],
  namespace_path: ['namespace_id', 'project_id'],
  user_login: ['user_id', 'project_id'],
  organization_slug: ['organization_id', 'pipeline_id'],
  pipeline_slug: ['pipeline_id'],
  'oidc.circleci.com/vcs-origin': ['oidc.circleci.com/project-id'],
};

/**
 * Issuers that sign tokens for anyone who asks. Without one of these ids, every one of their users would
 * match.
 */
const sharedIssuers: readonly { form: RegExp; ids: readonly string[] }[] = [
  {
    form: /^https:\/\/token\.actions\.githubusercontent\.com(\/|$)/,
    ids: ['repository_id', 'repository_owner_id'],
  },
  { form: /^https:\/\/gitlab\.com\/?$/, ids: ['project_id', 'namespace_id'] },
  { form: /^https:\/\/agent\.buildkite\.com\/?$/, ids: ['pipeline_id', 'organization_id'] },
];

/**
 * Returns the reason why the rules are too weak: they identify a publisher only by names, or do not identify
 * anyone. Returns null if there is no problem. `expected` says how to fix it.
 */
export function ruleWeakness(issuer: string, rules: ClaimRules): { reason: string; expected: string } | null {
  const isExact = (name: string): boolean => {
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    return rule !== undefined && (typeof rule === 'string' || !('glob' in rule));
  };
  if (Object.keys(rules).length === 0)
    return {
      reason: 'claims is empty, so every token of the issuer would match',
      expected: 'a claim or more',
    };
  for (const [name, ids] of Object.entries(idsOfNames))
    if (Object.hasOwn(rules, name) && !ids.some(isExact))
      return {
        reason: `the claim ${name} is a name, which another owner can register after a renaming`,
        expected: `an exact value of ${ids.join(' or ')} in claims as well`,
      };
  const shared = sharedIssuers.find(({ form }) => form.test(issuer));
  if (shared === undefined || shared.ids.some(isExact)) return null;
  return {
    reason: `${issuer} signs tokens for all its users, and no claim identifies one of them`,
    expected: `an exact value of ${shared.ids.join(' or ')} in claims`,
  };
}
