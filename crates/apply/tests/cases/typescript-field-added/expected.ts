export interface User {
  id: number;
  name: string;
}

export interface Team {
  id: number;
  title: string;
  members: User[];
}
