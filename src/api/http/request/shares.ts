/** A bounded amount of which each owner may take a part, so that one of them cannot take all of it. */
export interface Shares {
  /**
   * Takes `amount` for `owner` if both bounds allow it. Returns the bound that refuses it, `owner` or
   * `total`; null if it was taken.
   */
  take(owner: string, amount: number): 'owner' | 'total' | null;
  /** Returns what `owner` has taken before. */
  give(owner: string, amount: number): void;
  /** The amount that all owners have now. */
  taken(): number;
}

export interface ShareBounds {
  total: number;
  perOwner: number;
}

export function createShares({ total, perOwner }: ShareBounds): Shares {
  const owners = new Map<string, number>();
  let taken = 0;
  return {
    take: (owner, amount) => {
      const before = owners.get(owner) ?? 0;
      if (before + amount > perOwner) return 'owner';
      if (taken + amount > total) return 'total';
      owners.set(owner, before + amount);
      taken += amount;
      return null;
    },
    give: (owner, amount) => {
      const left = (owners.get(owner) ?? 0) - amount;
      if (left > 0) owners.set(owner, left);
      else owners.delete(owner);
      taken -= amount;
    },
    taken: () => taken,
  };
}
