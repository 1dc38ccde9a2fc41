export interface User {
  id: number;
  name: string;
}

export interface Team {
  id: number;
  members: User[];
}
