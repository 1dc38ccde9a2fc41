namespace Acme
{
    public class Cart
    {
        public void Add(Item item)
        {
            items.Add(item);
        }

        public void Clear()
        {
            items.Clear();
        }
    }

    public class Order
    {
        public void Send()
        {
            sent = true;
        }

        public void Cancel()
        {
            cancelled = true;
        }
    }
}
