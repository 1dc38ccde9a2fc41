namespace Shop
{
    public class Order
    {
        public int Id { get; set; }
        public string Customer { get; init; }
        public decimal Total { get; set; }
    }
}
